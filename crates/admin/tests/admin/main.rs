//! The admin server over real sockets; one module for each group of routes.

mod api;
mod commands;
mod views;
