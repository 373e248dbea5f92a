//! The span of each call, as recorded by a subscriber that keeps spans and events.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use herdsman_client::RetryPolicy;
use herdsman_testing::proxy::{Fault, OpCode};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument as _, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::world::{World, within};

/// The fields of a span or an event, as text.
#[derive(Clone, Debug, Default, PartialEq)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Fields {
    /// Returns these fields, separated by spaces; `-` for a missing one.
    fn text(&self, names: &[&str]) -> String {
        let text = |name| self.0.get(name).map_or("-", String::as_str);
        names.iter().map(|name| text(*name)).collect::<Vec<_>>().join(" ")
    }
}

/// A span named `call`.
#[derive(Clone, Debug, Default)]
struct Call {
    parent: Option<&'static str>,
    fields: Fields,
    /// The messages of the events in it.
    events: Vec<String>,
    is_closed: bool,
}

/// Records the spans of calls.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<BTreeMap<u64, Call>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().name() != "call" {
            return;
        }
        let parent = context.span(id).and_then(|span| span.parent().map(|parent| parent.name()));
        let mut call = Call { parent, ..Call::default() };
        attributes.record(&mut call.fields);
        // Ids are reused.
        let mut calls = self.0.lock().unwrap();
        let number = u64::try_from(calls.len()).unwrap();
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(number);
        }
        calls.insert(number, call);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.change(id, &context, |call| values.record(&mut call.fields));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let Some(span) = context.event_span(event) {
            self.change(&span.id(), &context, |call| {
                call.events.push(fields.text(&["message", "state"]));
            });
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.change(&id, &context, |call| call.is_closed = true);
    }
}

impl Spans {
    fn change<S: Subscriber + for<'a> LookupSpan<'a>>(
        &self,
        id: &Id,
        context: &Context<'_, S>,
        change: impl FnOnce(&mut Call),
    ) {
        let number = context.span(id).and_then(|span| span.extensions().get::<u64>().copied());
        if let Some(number) = number
            && let Some(call) = self.0.lock().unwrap().get_mut(&number)
        {
            change(call);
        }
    }

    /// Records what this thread does while the guard lives.
    fn keep(&self) -> tracing::subscriber::DefaultGuard {
        let subscriber = tracing_subscriber::registry().with(self.clone());
        tracing::subscriber::set_default(subscriber)
    }

    fn calls(&self) -> Vec<Call> {
        self.0.lock().unwrap().values().cloned().collect()
    }
}

// One thread, so that all of the client's work is done where its spans are recorded.
#[tokio::test(flavor = "current_thread")]
async fn each_call_is_a_span_with_its_outcome() {
    let World { zk, server: _server, proxy: _proxy, other: _other } = World::start().await;
    let spans = Spans::default();
    let guard = spans.keep();
    async { zk.create("/a", "").await }.instrument(tracing::info_span!("job")).await.unwrap();
    zk.get("/b").await.unwrap_err();
    zk.get("b").await.unwrap_err();
    zk.who_am_i().deadline(Duration::from_secs(20)).await.unwrap();
    drop(zk.get("/a").send());
    drop(guard);
    let calls = spans.calls();
    assert!(calls.iter().all(|call| call.is_closed && call.events.is_empty()), "{calls:?}");
    assert_eq!(calls.iter().filter(|call| call.fields.0.contains_key("elapsed_us")).count(), 4);
    let parents: Vec<_> = calls.iter().map(|call| call.parent).collect();
    assert_eq!(parents, [Some("job"), None, None, None, None]);
    let rows: Vec<_> =
        calls.iter().map(|call| call.fields.text(&["op", "path", "outcome", "attempts"])).collect();
    let expected = [
        r#""create2" "/a" "ok" 1"#,
        r#""getData" "/b" NotApplied 1"#,
        r#""getData" "b" NotApplied 0"#,
        r#""whoAmI" - "ok" 1"#,
        // Its future is dropped.
        r#""getData" "/a" - -"#,
    ];
    assert_eq!(rows, expected);
    assert_eq!(calls[1].fields.text(&["error"]), "the znode does not exist");
}

#[tokio::test(flavor = "current_thread")]
async fn events_during_a_call_are_in_its_span() {
    let World { zk, proxy, server: _server, other: _other } = World::start().await;
    let zk = zk.with_retry(RetryPolicy::forever(Duration::from_millis(1)));
    let spans = Spans::default();
    let guard = spans.keep();
    proxy.once(OpCode::GetData, Fault::CutBeforeReply);
    within(zk.get("/zookeeper").send()).await.unwrap();
    drop(guard);
    let calls = spans.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    let Call { fields, events, .. } = &calls[0];
    assert_eq!(fields.text(&["outcome", "attempts"]), r#""ok" 2"#);
    let has = |text: &str| events.iter().any(|event| event.starts_with(text));
    assert!(has("connection state changed Suspended"), "{events:?}");
    assert!(has("connection state changed Connected") && has("trying again"), "{events:?}");
}
