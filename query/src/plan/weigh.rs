//! How much a statement says once it is written out, from its text alone: planning goes through every name of a WITH clause wherever it
//! stands, and forty names that each stand twice in the next are 2⁴⁰.

use std::{collections::BTreeMap, ops::ControlFlow};

use datafusion::{
    common::{Result, resources_err},
    sql::sqlparser::ast::{Expr, ObjectName, Query, Statement, Visit, Visitor},
};

/// Most tables that a statement names, those of a WITH clause wherever it is named.
const NAMES_MAX: u64 = 1_000;
/// Most terms of its CUBEs: each doubles the ways to group.
const CUBE_TERMS_MAX: usize = 12;

/// # Errors
/// `ResourcesExhausted` if the statement says too much.
pub(super) fn check(statement: &Statement) -> Result<()> {
    let mut weight = Weight { frames: vec![Frame::default()], ..Weight::default() };
    let _ = statement.visit(&mut weight);
    if weight.cube_terms > CUBE_TERMS_MAX {
        return resources_err!("the statement has more than {CUBE_TERMS_MAX} terms in CUBE; name the GROUPING SETS");
    }
    if weight.frames.iter().any(|frame| frame.names > NAMES_MAX) {
        return resources_err!(
            "the statement names more than {NAMES_MAX} tables once its WITH clauses are written out wherever they are named"
        );
    }
    Ok(())
}

#[derive(Default)]
struct Weight {
    /// The queries that the visit is in, outermost first.
    frames: Vec<Frame>,
    cube_terms: usize,
}

#[derive(Default)]
struct Frame {
    /// Tables named so far.
    names: u64,
    /// Queries of its WITH clause that are still to come, in order: their names.
    awaited: Vec<String>,
    /// Those gone through: how many tables they name.
    known: BTreeMap<String, u64>,
    /// Whether it is of a WITH clause: then it counts where it is named.
    is_named: bool,
}

impl Weight {
    fn of(&self, name: &str) -> u64 {
        self.frames.iter().rev().find_map(|frame| frame.known.get(name)).copied().unwrap_or(1)
    }
}

impl Visitor for Weight {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        // The queries of a WITH clause are visited first, and in order.
        let is_named = self.frames.last().is_some_and(|frame| !frame.awaited.is_empty());
        let names = query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| cte.alias.name.value.to_lowercase());
        let mut awaited: Vec<String> = names.collect();
        awaited.reverse();
        self.frames.push(Frame { awaited, is_named, ..Frame::default() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        let (Some(done), Some(around)) = (self.frames.pop(), self.frames.last_mut()) else {
            return ControlFlow::Break(());
        };
        match around.awaited.pop().filter(|_| done.is_named) {
            Some(name) => {
                around.known.insert(name, done.names.max(1));
            }
            None => around.names = around.names.saturating_add(done.names),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let named = self.of(&relation.to_string().replace('"', "").to_lowercase());
        let Some(frame) = self.frames.last_mut() else { return ControlFlow::Break(()) };
        frame.names = frame.names.saturating_add(named);
        if frame.names > NAMES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Cube(terms) = expr {
            self.cube_terms = self.cube_terms.saturating_add(terms.len());
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

    use super::check;

    fn is_light(sql: &str) -> bool {
        let statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).expect(sql);
        check(&statements[0]).is_ok()
    }

    fn chain(steps: usize, step: fn(usize) -> String) -> String {
        let steps: Vec<String> = (1..=steps).map(|at| format!("a{at} AS ({})", step(at - 1))).collect();
        format!("WITH a0 AS (SELECT 1 AS x), {} SELECT * FROM a{}", steps.join(", "), steps.len())
    }

    #[test]
    fn names_that_double_are_heavy_and_names_that_do_not_are_light() {
        assert!(is_light(&chain(40, |at| format!("SELECT x + x AS x FROM a{at}"))));
        assert!(is_light(&chain(9, |at| format!("SELECT * FROM a{at} UNION ALL SELECT * FROM a{at}"))));
        for step in [
            |at: usize| format!("SELECT * FROM a{at} UNION ALL SELECT * FROM a{at}"),
            |at: usize| format!("SELECT x FROM a{at} WHERE x IN (SELECT x FROM A{at})"),
            |at: usize| {
                format!("SELECT l.x FROM \"a{at}\" AS l, (WITH b AS (SELECT * FROM a{at}) SELECT * FROM b) AS r")
            },
        ] {
            assert!(!is_light(&chain(12, step)), "{}", step(0));
            let within = chain(12, step);
            assert!(!is_light(&format!("SELECT 1 WHERE EXISTS ({within})")), "{within}");
            assert!(!is_light(&format!("EXPLAIN {within}")), "{within}");
        }
    }

    #[test]
    fn cubes_are_bounded_together() {
        let cube = |terms: usize| format!("CUBE({})", vec!["x"; terms].join(", "));
        assert!(is_light(&format!("SELECT 1 FROM t GROUP BY {}", cube(12))));
        assert!(!is_light(&format!("SELECT 1 FROM t GROUP BY {}, {}", cube(8), cube(8))));
    }
}
