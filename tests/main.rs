//! End-to-end tests: the real binary, real clients, real peers, and a real end by `kill -9`.
#![allow(clippy::expect_used, reason = "a test that cannot go on says why and stops")]

mod endpoint;
mod otlp;
mod sender;
mod world;

mod crash;
mod dialects;
mod flight;
mod readers;
mod receivers;
mod alerting;
mod postgres;
mod grafana;
mod s3;
mod hostile;
mod tls;
mod chat;
mod node;
mod fleet;
mod deploy;
mod documents;
mod examples;
mod bills;
mod questions;
mod benchmarks;
mod workers;
mod lakes;
mod soak;
