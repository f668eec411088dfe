// SQL's own words as this server reads them: it is PostgreSQL's dialect, and only asks.

/** Coloured and completed. What tables here call their columns (`time`, `position`, `row`) is left out. */
export const words =
  "all analyze and any array as asc at between both by case cast cross cube current_date current_timestamp desc describe distinct else end escape except " +
  "exclude exists explain extract fetch filter first following from full group grouping having ilike in inner intersect is join last lateral leading left " +
  "like limit natural not nulls of offset on or order outer over partition preceding range recursive right rollup rows select sets show similar some tables " +
  "then ties to trailing try_cast unbounded union using values version verbose when where window with within without zone";

export const types =
  "bigint boolean bytea char date decimal double float int integer interval numeric precision real smallint text timestamp timestamptz varchar";

const own = new Set(`${words} ${types}`.split(" "));

/** Names that are functions and nothing else: `left` also joins. */
export const callable = functions => functions.map(([name]) => name).filter(name => !own.has(name));
