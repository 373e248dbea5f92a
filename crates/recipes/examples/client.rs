//! The client by itself: parents, versions, transactions, watches, namespaces, and the information in errors.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example client -- 127.0.0.1:2181`

use herdsman_client::{Client, ConnectionEvent, ErrorKind, Op, WatchUpdate};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    let app = zk.namespace("/examples/app")?; // all its paths are below this one
    app.create("/config/db", "v1").parents().await?;

    let (node, changed) = app.get("/config/db").watch().await?;
    app.set("/config/db", "v2").version(node.stat.version).await?;
    println!("the watch reported {:?}", changed.await?.kind);
    let refused = app.set("/config/db", "v3").version(node.stat.version).await;
    if let Err(error) = refused {
        println!("{} ({:?})", error.kind(), error.outcome());
    }

    let ops = [
        Op::check("/config/db").version(1),
        Op::create("/config/cache", "on"),
        Op::delete("/none"),
    ];
    if let Err(error) = app.transaction(ops).await {
        println!("operation {:?} failed: {}", error.failed_op(), error.kind());
        assert_eq!(*error.kind(), ErrorKind::NoNode);
    }

    let mut watch = app.watch("/config").recursive().await?;
    app.create("/config/cache", "on").await?;
    if let Some(WatchUpdate::Event(event)) = watch.next().await {
        println!("{:?} {}", event.kind, event.path);
    }
    zk.delete("/examples/app").recursive().await?;
    let mut events = zk.events();
    zk.close().await?;
    println!("closed: {}", events.next().await == Some(ConnectionEvent::Closed));
    Ok(())
}
