//! Two workers sell the last items of a stock: only the holder of the lock sells, and the fence keeps a worker that
//! was paused too long from overwriting later changes by others.
//!
//! Run it against any server: `cargo run -p herdsman-recipes --example lock -- 127.0.0.1:2181`

use herdsman_client::Client;
use herdsman_recipes::{HoldOptions, Lock};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let servers = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let zk = Client::connect(&servers).await?;
    zk.create("/shop/stock", "6").parents().await?;
    let (first, second) = tokio::join!(
        tokio::spawn(sell(servers.clone(), "ann")),
        tokio::spawn(sell(servers, "bob"))
    );
    let sold = first?? + second??;
    println!("sold {sold}, left {:?}", zk.get("/shop/stock").await?.data);
    zk.delete("/shop").recursive().await?;
    Ok(())
}

async fn sell(servers: String, who: &'static str) -> Result<u32, Failure> {
    let zk = Client::connect(&servers).await?;
    let lock = Lock::new(&zk, "/shop/lock")?.options(&HoldOptions::new().owner(who));
    let mut sold = 0;
    loop {
        let guard = lock.acquire().await?;
        let stock: u32 = String::from_utf8(zk.get("/shop/stock").await?.data.to_vec())?.parse()?;
        if stock == 0 {
            guard.release().await?;
            return Ok(sold);
        }
        println!("{who} sells number {stock} with token {}", guard.token());
        // Fails and changes nothing if the lock was lost meanwhile.
        guard.fenced().set("/shop/stock", (stock - 1).to_string()).await?;
        sold += 1;
        guard.release().await?;
    }
}
