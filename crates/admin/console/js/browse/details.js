/** The details of a znode: its stat with readable times, its owner, its quota. */

import { read } from "../core/api.js";
import { h, show } from "../core/dom.js";
import { bytes, count, duration, moment } from "../core/format.js";
import { facts } from "../ui/controls.js";
import { aclChips } from "./acl-panel.js";

const QUOTAS = "/zookeeper/quota";
const LIMITS = "zookeeper_limits";
const USE = "zookeeper_stats";

/** @param {any} node */
export function details(node) {
  const { stat } = node;
  const quota = h("div", {}, h("span", { class: "muted" }, "…"));
  showQuota(node, quota);
  return h(
    "aside",
    { class: "details", "aria-label": "Details of this znode" },
    h("h2", {}, "Details"),
    facts([
      ["Modified", moment(stat.mtime_ms)],
      ["Created", moment(stat.ctime_ms)],
      ["Version", count(stat.version)],
      ["Children", count(stat.num_children)],
      ["Data", bytes(stat.data_length)],
      stat.ephemeral_owner && [
        "Owner",
        h("a", { href: `#/sessions/${stat.ephemeral_owner}`, class: "mono" }, stat.ephemeral_owner),
      ],
      node.ttl_ms && ["Time to live", duration(node.ttl_ms)],
      node.acl && ["Access", aclChips(node.acl)],
      ["Quota", quota],
      ["Child version", count(stat.cversion)],
      ["ACL version", count(stat.aversion)],
      ["Created by", zxid(stat.czxid)],
      ["Modified by", zxid(stat.mzxid)],
      ["Children changed by", zxid(stat.pzxid)],
    ]),
  );
}

function zxid(text) {
  return h("code", { title: "zxid of the transaction" }, text);
}

async function showQuota(node, place) {
  const home = `${QUOTAS}${node.path === "/" ? "" : node.path}`;
  const fetch = (name) => read("node", { path: `${home}/${name}` }).then((answer) => parse(answer.data));
  try {
    // Most trees have no quotas at all; then this one need not be requested.
    const { total } = await read("children", { path: QUOTAS, limit: 1 });
    const limits = total > 0 ? await fetch(LIMITS) : null;
    show(place, limits ? meters(limits, await fetch(USE)) : h("span", { class: "muted" }, "none"));
  } catch (error) {
    show(place, h("span", { class: "muted" }, error.status === 404 ? "none" : "not readable"));
  }
}

/** Parses `count=5,bytes=-1;byteHardLimit=…`: names and numbers, with any separators. */
function parse(text) {
  const pairs = (text ?? "").matchAll(/([A-Za-z]+)=(-?\d+)/g);
  return Object.fromEntries([...pairs].map(([, name, value]) => [name, Number(value)]));
}

function meters(limits, use) {
  const rows = [
    ["znodes", use.count, limits.countHardLimit > 0 ? limits.countHardLimit : limits.count, count],
    ["bytes", use.bytes, limits.byteHardLimit > 0 ? limits.byteHardLimit : limits.bytes, bytes],
  ];
  return rows
    .filter(([, , max]) => max > 0)
    .map(([name, value, max, write]) => meter(name, value ?? 0, max, write));
}

function meter(name, value, max, write) {
  const bar = h("meter", { min: 0, max, high: max * 0.8, value, "aria-label": `${name} used` });
  return h(
    "div",
    { class: "quota" },
    h("span", {}, `${write(value)} of ${write(max)}`, name === "znodes" ? " znodes" : ""),
    bar,
  );
}
