//! A whole node over real sockets: an HTTP client in front, an OTLP/gRPC receiver behind.

mod account;
mod api;
mod drain;
mod world;
