//! The trait of all guards, for code that takes any of them.

use herdsman_client::{Fenced, Session};

use crate::error::{Error, Result};
use crate::hold::Hold;

/// Proof, as far as a client can know, that something is held: a lock, a permit, a leadership, an item of a queue.
/// Dropping it releases that in the background.
///
/// Every guard dereferences to its [`Hold`], so the methods can be called without this trait in scope. The trait is
/// for code that takes any guard:
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let server = herdsman_testing::TestServer::start();
/// # let zk = herdsman_client::Client::connect(&server.connect_string()).await?;
/// # zk.create("/report", "").await?;
/// use herdsman_recipes::{Election, Guard, Lock, Result};
///
/// async fn write_report<G: Guard>(guard: G) -> Result<()> {
///     guard.fenced().set("/report", format!("written by holder {}", guard.token())).await?;
///     guard.release().await
/// }
///
/// write_report(Lock::new(&zk, "/lock")?.acquire().await?).await?;
/// write_report(Election::new(&zk, "/leader", "host-1")?.campaign().await?).await?;
/// # Ok::<_, herdsman_recipes::Error>(()) }).unwrap();
/// ```
///
/// [`MultiGuard`](crate::MultiGuard) is not one guard but several, which may be of different servers.
pub trait Guard: Send + Sync + Sized {
    /// Returns the hold that it is based on.
    fn hold(&self) -> &Hold;

    /// Releases it, and waits until the server has confirmed that; see [`Hold::release`].
    fn release(self) -> impl Future<Output = Result<()>> + Send;

    /// See [`Hold::path`].
    fn path(&self) -> &str {
        self.hold().path()
    }

    /// See [`Hold::token`].
    fn token(&self) -> u64 {
        self.hold().token()
    }

    /// See [`Hold::session`].
    fn session(&self) -> &Session {
        self.hold().session()
    }

    /// See [`Hold::fenced`].
    fn fenced(&self) -> Fenced {
        self.hold().fenced()
    }

    /// See [`Hold::is_trusted`].
    fn is_trusted(&self) -> bool {
        self.hold().is_trusted()
    }

    /// See [`Hold::lost`].
    fn lost(&self) -> impl Future<Output = ()> + Send {
        self.hold().lost()
    }

    /// See [`Hold::run`].
    fn run<T: Send>(
        &self,
        work: impl Future<Output = T> + Send,
    ) -> impl Future<Output = Result<T>> + Send {
        run_until(self.lost(), work)
    }
}

impl Guard for Hold {
    fn hold(&self) -> &Hold {
        self
    }

    async fn release(self) -> Result<()> {
        Hold::release(self).await
    }
}

/// Runs `work`: [`Error::Lost`] if `lost` resolved before the work was done.
pub(crate) async fn run_until<T>(
    lost: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Result<T> {
    tokio::select! {
        done = work => Ok(done),
        () = lost => Err(Error::Lost),
    }
}

/// Implements guards for types that have a hold in a field. With the name of the type alone, this also writes
/// `release`.
macro_rules! guard {
    ($guard:ident) => {
        impl $guard {
            /// Releases it, and waits until the server has confirmed that. See
            /// [`Hold::release`](crate::Hold::release).
            pub async fn release(self) -> $crate::Result<()> {
                self.hold.release().await
            }
        }

        $crate::guard::guard!($guard, hold, release);
    };
    ($guard:ident, $($field:ident).+, $release:ident) => {
        impl std::ops::Deref for $guard {
            type Target = $crate::Hold;

            fn deref(&self) -> &$crate::Hold {
                &self.$($field).+
            }
        }

        impl $crate::Guard for $guard {
            fn hold(&self) -> &$crate::Hold {
                self
            }

            async fn release(self) -> $crate::Result<()> {
                $guard::$release(self).await
            }
        }
    };
}
pub(crate) use guard;
