//! How a leader is found, and by whom: whole elections as text scripts, elections over a random
//! network, and tables about quorums.

mod config;
mod network;
mod quorum;
mod random;
mod script;
