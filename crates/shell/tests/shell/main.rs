//! The shell against a real server: commands go in, text and exit codes come out.

mod json;
mod membership;
mod mistakes;
mod pipe;
mod protection;
mod quota;
mod subtree;
mod watches;
mod world;
mod znodes;
