//! The shell against a real server: commands go in, text and exit codes come out.

#[path = "../../../client/tests/client/certificates.rs"]
mod certificates;
mod json;
mod membership;
mod mistakes;
mod pipe;
mod protection;
mod quota;
#[path = "../../../client/tests/client/secured_server.rs"]
mod secured_server;
mod subtree;
mod watches;
mod world;
mod znodes;
