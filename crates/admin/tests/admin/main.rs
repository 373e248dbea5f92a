//! The admin server over real sockets, one module a room.

mod api;
mod commands;
mod views;
