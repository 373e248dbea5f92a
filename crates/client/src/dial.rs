//! How a client opens connections to servers: by TCP, unless the program provides another way.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::net::TcpStream;

/// A connection that is being opened.
pub type Dialing<'a> = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send + 'a>>;

/// A way to open connections, for programs that do not reach their servers directly: through a tunnel,
/// or inside the server's own process. Dropping the future cancels the attempt.
pub trait Dial: Debug + Send + Sync {
    /// Opens a connection to one of the servers of the connect string.
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialing<'a>;
}

/// Connects to the first address of the host that accepts the connection. The name is resolved each time, so
/// a server that has moved is found.
#[derive(Debug)]
pub(crate) struct Tcp;

impl Dial for Tcp {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialing<'a> {
        Box::pin(TcpStream::connect((host, port)))
    }
}
