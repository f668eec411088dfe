//! A whole node over real sockets: an HTTP client in front, an OTLP/gRPC receiver behind.

#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod account;
mod api;
mod dead;
mod drain;
mod ends;
mod grpc;
mod health;
mod neuron;
mod proxy;
mod silent;
mod upstream;
mod world;

#[path = "../neuron/stub.rs"]
mod stub;
