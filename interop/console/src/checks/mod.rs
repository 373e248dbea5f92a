//! The list of checks, in order. Each check navigates to its own page and leaves the tree as the next ones
//! expect it: it changes only its own znodes.

mod failures;
mod keyboard;
mod live_updates;
mod pages;
mod phone;
mod reading;
mod writing;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::future::LocalBoxFuture;
use herdsman_client::Client;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::browser::Browser;
use crate::driver::{Driver, Screen};
use crate::population;
use crate::test_servers::{TestServers, Tree};

/// Enough for a busy machine to fill the tree.
const PREPARATION_MAX: Duration = Duration::from_secs(120);

/// What a check gets.
pub struct Scene<'a> {
    /// The browser, showing the console of a follower.
    pub browser: &'a Browser,
    /// The same ensemble through an ordinary client.
    pub tree: &'a Tree,
}

type Check = for<'a> fn(&'a Scene<'a>) -> LocalBoxFuture<'a, Result<()>>;

macro_rules! check {
    ($module:ident :: $name:ident) => {
        (stringify!($name), |scene| Box::pin($module::$name(scene)))
    };
}

/// The first ones are not logged in; `log_in` applies to all after it.
const WIDE: &[(&str, Check)] = &[
    check!(reading::the_root_lists_its_children),
    check!(reading::a_znode_shows_json_facts_and_owner),
    check!(reading::data_is_shown_as_text_json_and_hex),
    check!(reading::hostile_names_and_data_are_only_text),
    check!(reading::a_hundred_thousand_children_stay_quick),
    check!(reading::search_finds_names_and_data),
    check!(reading::missing_znodes_and_sessions_are_reported),
    check!(writing::without_logging_in_nothing_can_be_changed),
    check!(writing::log_in),
    check!(writing::an_edit_is_saved_in_its_original_form),
    check!(writing::invalid_json_is_not_saved),
    check!(writing::a_conflict_shows_both_versions_and_offers_a_choice),
    check!(writing::a_child_is_created),
    check!(writing::a_subtree_is_deleted_after_counting),
    check!(writing::an_acl_is_edited),
    check!(writing::leaving_unsaved_text_needs_confirmation),
    check!(live_updates::a_change_appears_without_reloading),
    check!(live_updates::a_change_keeps_typed_text),
    check!(live_updates::children_appear_and_disappear_in_the_tree),
    check!(pages::recipes_show_holders_and_waiters),
    check!(pages::sessions_show_what_they_hold),
    check!(pages::the_server_shows_its_state),
    check!(pages::the_ensemble_shows_its_members_and_plots),
    check!(pages::dark_is_remembered),
    check!(keyboard::shortcuts_are_listed_and_work),
    check!(keyboard::the_tree_is_walked_with_arrows),
    check!(keyboard::a_znode_is_edited_without_a_mouse),
    check!(writing::log_out),
];

/// Runs all checks whose name contains `only`.
pub fn run(
    runtime: &Runtime,
    test_servers: &mut TestServers,
    driver: &Driver,
    screenshots: &Path,
    only: &str,
) -> Result<()> {
    let home = test_servers.follower();
    let (servers, busiest) = (test_servers.connect_string(), test_servers.address(home));
    let zk = runtime.block_on(Client::connect(&servers))?;
    let create_znodes = async { timeout(PREPARATION_MAX, population::create_znodes(&zk)).await? };
    runtime.block_on(create_znodes).context("filling the tree")?;
    let start_recipes =
        async { timeout(PREPARATION_MAX, population::start_recipes(&servers, &busiest)).await? };
    let _recipe_clients = runtime.block_on(start_recipes).context("using recipes")?;
    let tree = Tree(zk);
    let open = |screen| {
        let client = runtime.block_on(driver.open(screen))?;
        anyhow::Ok(Browser::new(client, test_servers.console(home), screenshots.to_owned()))
    };
    let (wide, narrow) = (open(Screen::Wide)?, open(Screen::Phone)?);
    let mut failed = Vec::new();
    for (name, check) in WIDE {
        let needed = *name == "log_in";
        if needed || name.contains(only) {
            let scene = Scene { browser: &wide, tree: &tree };
            report(runtime, name, &wide, &mut failed, || runtime.block_on(check(&scene)));
        }
    }
    if "phone".contains(only) {
        report(runtime, "phone", &narrow, &mut failed, || {
            runtime.block_on(phone::every_page_fits_a_phone(&narrow))
        });
    }
    if "failures".contains(only) {
        report(runtime, "failures", &wide, &mut failed, || {
            failures::run(runtime, test_servers, &wide, home)
        });
    }
    runtime.block_on(wide.close())?;
    runtime.block_on(narrow.close())?;
    if !failed.is_empty() {
        bail!("{} failed: {}", failed.len(), failed.join(", "));
    }
    Ok(())
}

fn report(
    runtime: &Runtime,
    name: &str,
    browser: &Browser,
    failed: &mut Vec<String>,
    check: impl FnOnce() -> Result<()>,
) {
    let start = Instant::now();
    let result = check();
    let seconds = start.elapsed().as_secs_f64();
    match result {
        Ok(()) => println!("ok      {name} ({seconds:.1} s)"),
        Err(error) => {
            println!("FAILED  {name} ({seconds:.1} s)\n        {error:#}");
            _ = runtime.block_on(browser.picture_now("failure"));
            failed.push(name.to_owned());
        }
    }
}
