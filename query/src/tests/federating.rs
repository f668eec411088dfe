//! Several lakes answer as one, and say when one of them is missing.

use std::{
    fmt::{self, Display},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use futures::stream::BoxStream;
use lake::{Entry, Lake, Outcome};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path,
};
use serde_json::{Value, json};
use service::Deps;
use telemetry::{
    contract::{ApiError, QueryApi, SqlAnswer, SqlRequest},
    table::{DEVICES, PRICES, REQUESTS, SLOS, TOKENS, Table},
};
use tower::ServiceExt;

use super::{
    rolling::Hand,
    world::{NOON, batch},
};
use crate::{
    Config, LakeAt, Lakes, Query, answer,
    reader::{Reader, Seen},
    rollup::{Rollups, Settings},
};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;

/// A store in memory that counts what it is asked, and can be cut off: all of it, or only the files of rows.
#[derive(Debug, Default)]
struct Counted {
    inner: InMemory,
    asked: AtomicU64,
    is_down: AtomicBool,
    is_without_files: AtomicBool,
}

impl Counted {
    fn ask(&self, location: &str) -> Result<()> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let is_file = location.ends_with(".parquet");
        if self.is_down.load(Ordering::SeqCst) || (is_file && self.is_without_files.load(Ordering::SeqCst)) {
            return Err(Error::Generic { store: "counted", source: "no route to host".into() });
        }
        Ok(())
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counted")
    }
}

#[async_trait]
impl ObjectStore for Counted {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.ask(location.as_ref())?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.ask(location.as_ref())?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.ask("")?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// One lake of the fleet.
struct Place {
    at: LakeAt,
    store: Arc<Counted>,
    lake: Lake,
    deps: Deps,
}

impl Place {
    async fn new(name: &str, regions: &[&str], deps: &Deps) -> Place {
        let store = Arc::<Counted>::default();
        let lake = Lake::open_on(Arc::clone(&store) as _, deps).await.expect("a lake");
        let regions = regions.iter().map(|region| (*region).to_owned()).collect();
        let at = LakeAt { name: name.to_owned(), url: format!("memory-{name}"), regions };
        Place { at, store, lake, deps: deps.clone() }
    }

    async fn write(&self, table: &'static Table, rows: &[Value]) -> i64 {
        let from = self.lake.through(table, "test").await.expect("a frame").unwrap_or(0);
        // The same name in every lake: paths alone must not tell files apart.
        let name = format!("test-{from}-{}.parquet", from + 1);
        let file = self.lake.write(table, "2026-11-29", &name, &[batch(table, rows)]).await.expect("written");
        let entry = Entry { journal: "test".to_owned(), table: table.name, from, to: from + 1, adds: vec![file] };
        match self.lake.commit(entry).await.expect("committed") {
            Outcome::Committed { version } => version,
            other => panic!("{other:?}"),
        }
    }

    async fn roll_up(&self) {
        let config = Config { rollup: Settings::default(), ..Config::default() };
        Rollups::new(&config, self.lake.clone(), &self.deps).expect("roll-ups").catch_up().await.expect("built");
    }
}

/// Lakes of two regions and of nobody in particular, and a query service over them.
struct World {
    places: Vec<Place>,
    query: Query,
    clock: Arc<Hand>,
}

impl World {
    async fn new(config: Config) -> World {
        let clock = Hand::at(NOON);
        let deps = Deps::new(Arc::clone(&clock) as _);
        let places = vec![
            Place::new("eu", &["eu-west-1", "eu-central-1"], &deps).await,
            Place::new("us", &["us-east-1"], &deps).await,
            Place::new("lab", &[], &deps).await,
        ];
        let query = service(&places, &[], config, &deps).await;
        World { places, query, clock }
    }

    async fn ask(&self, sql: &str) -> SqlAnswer {
        self.try_ask(sql).await.unwrap_or_else(|error| panic!("{error:?} from {sql}"))
    }

    async fn try_ask(&self, sql: &str) -> std::result::Result<SqlAnswer, ApiError> {
        self.query.sql(SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() }).await
    }

    async fn rows(&self, sql: &str) -> Vec<Vec<Value>> {
        self.ask(sql).await.rows
    }
}

/// A service over opened lakes and some that are only named.
async fn service(places: &[Place], named: &[LakeAt], config: Config, deps: &Deps) -> Query {
    let opened = places.iter().map(|place| (place.at.clone(), Some(place.lake.clone())));
    let lakes = Lakes::with(opened.chain(named.iter().map(|at| (at.clone(), None))).collect());
    crate::build(config, lakes, deps.clone()).await.expect("a service")
}

fn request(index: i64, region: &str, measured_at: &str) -> Value {
    json!({
        "time": NOON - 30 * MINUTE + index * SECOND, "region": region, "model": "m", "measured_at": measured_at,
        "host_id": format!("{region}/{measured_at}"), "host_type": "inf2.48xlarge", "instance": "0", "trace_id": format!("{region}-{index}"),
        "span_id": format!("{measured_at}{index}"), "ttft_s": 0.25, "e2e_s": 2.0, "input_tokens": 5, "output_tokens": 10,
        "status": "ok", "tenant": if index % 2 == 0 { "acme" } else { "zeta" },
    })
}

/// Ten calls in each lake, each seen by a gateway and a server.
async fn fleet(config: Config) -> World {
    let world = World::new(config).await;
    for (place, region) in world.places.iter().zip(["eu-west-1", "us-east-1", "lab"]) {
        for measured_at in ["gateway", "server"] {
            let rows: Vec<Value> = (0..10).map(|index| request(index, region, measured_at)).collect();
            place.write(&REQUESTS, &rows).await;
        }
    }
    world
}

fn quick() -> Config {
    Config { lake_wait_ms: 500, ..Config::default() }
}

#[tokio::test]
async fn a_table_is_the_union_and_nothing_counts_twice() {
    let world = fleet(quick()).await;
    assert_eq!(world.rows("SELECT count(*), count(DISTINCT trace_id) FROM requests").await, [[json!(60), json!(30)]]);
    assert_eq!(world.rows("SELECT count(*), sum(output_tokens) FROM calls").await, [[json!(30), json!(300)]]);
    let by_region = world.rows("SELECT region, count(*) FROM calls GROUP BY region ORDER BY region").await;
    assert_eq!(
        by_region,
        [[json!("eu-west-1"), json!(10)], [json!("lab"), json!(10)], [json!("us-east-1"), json!(10)]]
    );
    assert_eq!(world.rows("SELECT count(*) FROM (SELECT * FROM requests LIMIT 7)").await, [[json!(7)]]);
    let newest = world.rows("SELECT region FROM requests ORDER BY time DESC, region LIMIT 2").await;
    assert_eq!(newest, [[json!("eu-west-1")], [json!("eu-west-1")]]);
    // Files of one name and size in three lakes are three files.
    let traces = world.rows("SELECT DISTINCT region FROM requests WHERE trace_id LIKE '%-3' ORDER BY 1").await;
    assert_eq!(traces, [[json!("eu-west-1")], [json!("lab")], [json!("us-east-1")]]);
}

#[tokio::test]
async fn every_lake_has_a_version_and_a_schema_of_its_own() {
    let world = fleet(quick()).await;
    let newest = world.places[1].write(&REQUESTS, &[request(11, "us-east-1", "server")]).await;
    let answer = world.ask("SELECT count(*) FROM requests").await;
    assert_eq!(answer.version["us.requests"], newest);
    assert_eq!(answer.version.keys().collect::<Vec<_>>(), ["eu.requests", "lab.requests", "us.requests"]);
    assert!(answer.notice.is_none() && answer.freshness.is_some());
    assert_eq!(world.rows("SELECT count(*) FROM us.requests").await, [[json!(21)]]);
    let before = format!("SELECT count(*) FROM us.requests VERSION AS OF {}", newest - 1);
    let answer = world.ask(&before).await;
    assert_eq!((answer.rows, answer.version["us.requests"]), (vec![vec![json!(20)]], newest - 1));
    let sql = "SELECT count(*) FROM us.requests".to_owned();
    let pinned = SqlRequest { sql, version: [("us.requests".to_owned(), newest - 1)].into(), ..SqlRequest::default() };
    assert_eq!(world.query.sql(pinned).await.expect("that version").rows, [[json!(20)]]);
    let error = world.try_ask("SELECT count(*) FROM requests VERSION AS OF 1").await.expect_err("ambiguous");
    assert!(error.message.contains("<lake>.requests VERSION AS OF 1"), "{error:?}");
    assert!(world.try_ask("SELECT count(*) FROM mars.requests").await.is_err());
    let fresh = world.rows("SELECT lake FROM system.freshness WHERE \"table\" = 'requests' ORDER BY lake").await;
    assert_eq!(fresh, [[json!("eu")], [json!("lab")], [json!("us")]]);
}

/// A filter on region leaves a lake alone altogether, in tables and in views, with windows and without.
#[tokio::test]
async fn a_lake_without_the_region_gets_no_request() {
    let world = fleet(quick()).await;
    for place in &world.places {
        place.roll_up().await;
    }
    // Tables that were just asked for are looked after in the background.
    world.clock.advance(Duration::from_secs(120));
    let (eu, us, lab) = (&world.places[0].store, &world.places[1].store, &world.places[2].store);
    for (from, expected) in [
        ("requests WHERE region = 'eu-west-1'", 20),
        ("requests WHERE region IN ('eu-west-1', 'eu-central-1') AND status = 'ok'", 20),
        ("requests WHERE region LIKE 'eu%'", 20),
        ("calls WHERE region = 'eu-west-1'", 10),
        ("(SELECT * FROM calls WHERE region = 'eu-central-1' OR region = 'eu-west-1') AS c", 10),
        ("requests_minutes WHERE region = 'eu-west-1' AND measured_at = 'server'", 1),
        ("measured_calls WHERE region = 'eu-west-1' AND counts = 1", 10),
    ] {
        // What was just looked at is not looked at again.
        world.clock.advance(Duration::from_secs(1));
        let (in_eu, in_us, in_lab) = (eu.asked(), us.asked(), lab.asked());
        let sql = format!("SELECT count(*) FROM {from}");
        assert_eq!(world.rows(&sql).await, [[json!(expected)]], "{sql}");
        assert_eq!(us.asked(), in_us, "{sql} asked the lake of another region");
        // Which may be anywhere.
        assert!(lab.asked() > in_lab && eu.asked() > in_eu, "{sql}");
    }
    // A reader's regions are a filter like any other.
    let bound = Arc::new(Reader::bound("dublin", Seen::All, Seen::Only(vec!["eu-west-1".to_owned()])));
    let before = us.asked();
    let request = SqlRequest { sql: "SELECT count(*) FROM requests".to_owned(), ..SqlRequest::default() };
    let answer = world.query.engine.run(request, &bound).await.map(answer::json).expect("an answer");
    assert_eq!((answer.rows, us.asked()), (vec![vec![json!(20)]], before));
    assert_eq!(world.rows("SELECT count(*) FROM requests WHERE region <> 'eu-west-1'").await, [[json!(40)]]);
    assert!(us.asked() > before);
}

#[tokio::test]
async fn a_reader_sees_its_own_rows_of_every_lake() {
    let world = fleet(quick()).await;
    let acme = Arc::new(Reader::bound("acme", Seen::Only(vec!["acme".to_owned()]), Seen::All));
    for (sql, expected) in [
        ("SELECT count(*), count(DISTINCT tenant) FROM requests", json!([[30, 1]])),
        ("SELECT count(*), max(tenant) FROM calls", json!([[15, "acme"]])),
        ("SELECT count(*), max(tenant) FROM us.requests", json!([[10, "acme"]])),
    ] {
        let request = SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() };
        let answer = world.query.engine.run(request, &acme).await.map(answer::json).expect(sql);
        assert_eq!(json!(answer.rows), expected, "{sql}");
    }
    let request = SqlRequest { sql: "SELECT * FROM eu.devices".to_owned(), ..SqlRequest::default() };
    let denied = world.query.engine.run(request, &acme).await.err().expect("denied");
    assert_eq!(denied.kind, "denied", "{denied:?}");
}

/// Windows answer where every lake has built them; the rest is raw, and the sum is the same.
#[tokio::test]
async fn windows_of_all_lakes_answer_together() {
    let world = fleet(quick()).await;
    let sql = "SELECT region, sum(requests), sum(output_tokens) FROM requests_minutes GROUP BY region ORDER BY region";
    let raw = world.ask(sql).await;
    assert_eq!(raw.served_by, "raw rows");
    assert_eq!(raw.rows[0], [json!("eu-west-1"), json!(10), json!(100)]);
    world.places[0].roll_up().await;
    assert_eq!(world.ask(sql).await.served_by, "raw rows", "two lakes have built nothing");
    world.places[1].roll_up().await;
    world.clock.advance(Duration::from_secs(600));
    world.places[2].roll_up().await;
    let rolled = world.ask(sql).await;
    assert_eq!(rolled.rows, raw.rows);
    // As far as the one that is farthest behind.
    assert!(rolled.served_by.starts_with("requests_1m through 2026-11-29T11:59Z"), "{}", rolled.served_by);
    assert!(rolled.version.contains_key("us.requests_1m"), "{:?}", rolled.version);
    // A late row makes one window of one lake wrong, and raw rows answer for it.
    world.places[1].write(&REQUESTS, &[request(12, "us-east-1", "server")]).await;
    let late = world.ask(sql).await;
    assert_eq!(late.rows[2], [json!("us-east-1"), json!(11), json!(110)]);
    assert!(late.served_by.contains("late rows"), "{}", late.served_by);
    let states =
        world.rows("SELECT count(*) FROM system.rollups WHERE view = 'requests_minutes' AND through IS NOT NULL").await;
    assert_eq!(states, [[json!(3)]]);
}

/// A call whose gateway wrote to one lake and whose server to another is one call.
#[tokio::test]
async fn calls_that_span_lakes_count_once() {
    let world = World::new(Config { calls_span_lakes: true, ..quick() }).await;
    let rows =
        |measured_at: &str| -> Vec<Value> { (0..10).map(|index| request(index, "eu-west-1", measured_at)).collect() };
    world.places[2].write(&REQUESTS, &rows("gateway")).await;
    world.places[0].write(&REQUESTS, &rows("server")).await;
    for place in &world.places {
        place.roll_up().await;
    }
    assert_eq!(world.rows("SELECT count(*) FROM calls").await, [[json!(10)]]);
    assert_eq!(world.rows("SELECT sum(requests) FROM requests_minutes").await, [[json!(10)]]);
    assert_eq!(world.rows("SELECT sum(requests) FROM usage_hours").await, [[json!(10)]]);
}

/// Every lake has the prices that come with the program; a cost is not computed once for each.
#[tokio::test]
async fn facts_are_taken_from_one_lake() {
    let world = World::new(quick()).await;
    let price = |region: Option<&str>, usd: &str| {
        json!({
            "time": 0, "effective_from": 0, "host_type": "inf2.48xlarge", "region": region, "option": "on_demand",
            "usd_per_hour": usd, "currency": "USD", "confidence": "published", "as_of": "2026-07-20", "source": "test",
        })
    };
    for (place, usd) in world.places.iter().zip(["16.0", "20.0", "24.0"]) {
        let regions = [Some("eu-west-1"), Some("us-east-1"), Some("lab"), None];
        place.write(&PRICES, &regions.map(|region| price(region, usd))).await;
    }
    let sql = "SELECT region, CAST(usd_per_hour AS DOUBLE) FROM prices ORDER BY region NULLS LAST";
    let expected = json!([["eu-west-1", 16.0], ["lab", 16.0], ["us-east-1", 20.0], [null, 16.0]]);
    assert_eq!(json!(world.rows(sql).await), expected);
    assert_eq!(
        json!(world.rows("SELECT CAST(usd_per_hour AS DOUBLE) FROM prices WHERE region = 'us-east-1'").await),
        json!([[20.0]])
    );
    let slo = |name: &str| {
        json!({"time": 0, "effective_from": 0, "name": name, "indicator": "ttft_s", "threshold": 1.0, "objective": 0.9,
            "measured_at": "server", "window": "30d"})
    };
    for place in &world.places {
        place.write(&SLOS, &[slo("fast")]).await;
    }
    assert_eq!(world.rows("SELECT count(*) FROM slos").await, [[json!(1)]]);
}

#[tokio::test]
async fn a_lake_that_is_down_is_named_and_the_others_answer() {
    let mut world = fleet(quick()).await;
    let nowhere =
        LakeAt { name: "mars".to_owned(), url: "/nonexistent/lake".to_owned(), regions: vec!["mars-1".to_owned()] };
    let deps = Deps::system();
    world.query = service(&world.places, std::slice::from_ref(&nowhere), quick(), &deps).await;
    let answer = world.ask("SELECT count(*) FROM requests").await;
    assert_eq!(answer.rows, [[json!(60)]]);
    let notice = answer.notice.expect("a notice");
    assert!(notice.contains("lake mars (mars-1) is missing") && notice.contains("/nonexistent/lake"), "{notice}");
    assert!(!answer.version.contains_key("mars.requests"));
    // Nobody asked for it.
    assert_eq!(world.ask("SELECT count(*) FROM requests WHERE region = 'us-east-1'").await.notice, None);
    let error = world.try_ask("SELECT count(*) FROM mars.requests").await.expect_err("asked by name");
    assert!(error.message.contains("of lake mars"), "{error:?}");
    let request = Request::post("/api/v1/sql").header("content-type", "text/plain").header("accept", "text/csv");
    let request = request.body(Body::from("SELECT count(*) FROM calls")).expect("a request");
    let response = world.query.router().oneshot(request).await.expect("an answer");
    let noted = response.headers()["x-tokenwatt-notice"].to_str().expect("text").to_owned();
    assert!(noted.contains("mars"), "{noted}");
    let body = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    assert!(String::from_utf8_lossy(&body).ends_with("\n30\r\n"), "{body:?}");
    // Unless answers must be whole.
    let strict = service(&world.places, &[nowhere], Config { lakes_required: true, ..quick() }, &deps).await;
    let whole = |sql: &str| strict.sql(SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() });
    let error = whole("SELECT count(*) FROM requests").await.expect_err("not whole");
    assert!(error.message.contains("mars"), "{error:?}");
    assert_eq!(whole("SELECT count(*) FROM eu.requests").await.expect("an answer").rows, [[json!(20)]]);
}

/// A lake that goes away between its log and its files is done without, and is back once it answers.
#[tokio::test]
async fn a_lake_may_go_down_in_the_middle_and_come_back() {
    let world = fleet(quick()).await;
    let sql = "SELECT count(*), count(DISTINCT trace_id), max(span_id) FROM requests";
    assert_eq!(world.rows(sql).await[0][0], json!(60));
    world.places[1].write(&REQUESTS, &[request(13, "us-east-1", "server")]).await;
    world.places[1].store.is_without_files.store(true, Ordering::SeqCst);
    let answer = world.ask(sql).await;
    assert_eq!(answer.rows[0][..2], [json!(40), json!(20)]);
    assert!(answer.notice.is_some_and(|notice| notice.contains("lake us") && notice.contains("no route")));
    // It is not asked again at once.
    world.places[1].store.is_without_files.store(false, Ordering::SeqCst);
    assert_eq!(world.rows(sql).await[0][0], json!(40));
    world.clock.advance(Duration::from_secs(11));
    let whole = world.ask(sql).await;
    assert_eq!((whole.rows[0][0].clone(), whole.notice), (json!(61), None));
}

/// Tables that no lake has written to are empty, and tables about tables list what there is.
#[tokio::test]
async fn empty_tables_are_empty() {
    let world = World::new(quick()).await;
    for table in [&TOKENS, &DEVICES, &PRICES] {
        assert_eq!(world.rows(&format!("SELECT count(*) FROM {}", table.name)).await, [[json!(0)]]);
    }
    assert!(world.rows("SELECT * FROM cost_per_region").await.is_empty());
    assert!(world.rows("SELECT * FROM slo_burn").await.is_empty());
    assert_eq!(world.rows("SELECT count(*) FROM system.rollups").await, [[json!(18)]]);
}
