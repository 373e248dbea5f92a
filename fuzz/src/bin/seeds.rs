//! Writes the seeds of every target into `fuzz/seeds/`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for (target, seeds) in herdsman_fuzz::seeds::all() {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder)?;
        for (name, bytes) in seeds {
            std::fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
