/**
 * The loaded part of the tree. Children are loaded in pages, on demand, without a request for
 * each child. The view draws {@link TreeModel.rows}, a flat list of the open rows.
 */

import { isAbort, read } from "../core/api.js";
import { childOf, lineage, nameOf, parentOf } from "../core/paths.js";

const PAGE = 500;
/** A node with more open rows than this is not read again at every change in it. */
const REFRESH_ROWS_MAX = 2000;

/** @typedef {{kind: "node" | "more" | "loading" | "problem", key: string, level: number, node: TreeNode, position: number}} Row */

export class TreeNode {
  /** @param {string} path @param {any} info its entry in the list of children */
  constructor(path, info) {
    this.path = path;
    this.name = nameOf(path);
    this.info = info;
    this.expanded = false;
    /** @type {TreeNode[] | null} */
    this.children = null;
    /** @type {string | null} the name after which the next page begins */
    this.next = null;
    this.total = 0;
    this.loading = false;
    /** @type {Error | null} */
    this.problem = null;
  }

  /** Whether it can be expanded. */
  get mayOpen() {
    return this.children ? this.total > 0 : this.info.num_children > 0;
  }
}

export class TreeModel {
  /** @param {() => void} changed called when rows have changed */
  constructor(changed) {
    this.changed = changed;
    this.root = new TreeNode("/", { type: "persistent", num_children: 1 });
    this.root.expanded = true;
  }

  /** All open rows, from top to bottom. @returns {Row[]} */
  rows() {
    const rows = [];
    addRows(rows, this.root, 1, 1);
    return rows;
  }

  /** @param {string} path @returns {TreeNode | null} */
  find(path) {
    let node = this.root;
    for (const step of lineage(path).slice(1)) {
      node = node.children?.find((child) => child.path === step);
      if (!node) {
        return null;
      }
    }
    return node;
  }

  /** @param {TreeNode} node */
  async open(node) {
    node.expanded = true;
    this.changed();
    if (!node.children || node.problem) {
      await this.more(node);
    }
  }

  /** @param {TreeNode} node */
  close(node) {
    node.expanded = false;
    this.changed();
  }

  /** Reads one more page of children. @param {TreeNode} node */
  async more(node) {
    if (node.loading) {
      return;
    }
    await this.load(node, async () => {
      const page = await read("children", { path: node.path, after: node.next, limit: PAGE });
      merge(
        node,
        [...(node.children ?? []).filter((child) => !isPinnedIn(page, child)), ...fresh(node, page)],
        page,
      );
    });
  }

  /** Expands all ancestors of a path, and adds it to its siblings even if their page is not loaded yet. */
  async reveal(path) {
    if (!this.root.children) {
      await this.more(this.root);
    }
    for (const step of lineage(path).slice(0, -1)) {
      const node = this.find(step);
      if (!node) {
        return;
      }
      await this.open(node);
      const below = lineage(path)[lineage(step).length];
      if (!node.children?.some((child) => child.path === below)) {
        await this.look(node, below);
      }
    }
    this.changed();
  }

  /** Handles a child that is not loaded: it is new, or on a later page. */
  async look(node, path) {
    if (node.next === null) {
      await this.refresh(node.path);
    } else {
      pin(node, path);
    }
  }

  /** Reads the children of an open node again. @param {string} path */
  async refresh(path) {
    const node = this.find(path);
    if (!node?.children || node.loading) {
      return;
    }
    await this.load(node, () =>
      node.children.length > REFRESH_ROWS_MAX ? refreshTotal(node) : refreshRows(node),
    );
  }

  /** Removes a deleted path. @param {string} path */
  drop(path) {
    const parent = this.find(parentOf(path));
    if (parent?.children?.some((child) => child.path === path)) {
      parent.children = parent.children.filter((child) => child.path !== path);
      parent.total -= 1;
      this.changed();
    }
  }

  async load(node, run) {
    node.loading = true;
    node.problem = null;
    this.changed();
    try {
      await run();
    } catch (error) {
      if (!isAbort(error) && error.status === 404) {
        this.drop(node.path);
      } else {
        node.problem = error;
      }
    } finally {
      node.loading = false;
      this.changed();
    }
  }
}

function addRows(rows, node, level, position) {
  rows.push({ kind: "node", key: node.path, level, node, position });
  if (!node.expanded) {
    return;
  }
  (node.children ?? []).forEach((child, i) => addRows(rows, child, level + 1, i + 1));
  const kind = tailKind(node);
  if (kind) {
    rows.push({ kind, key: `${kind}:${node.path}`, level: level + 1, node, position: 0 });
  }
}

function tailKind(node) {
  if (node.problem) {
    return "problem";
  }
  if (node.loading && !node.children) {
    return "loading";
  }
  return node.next === null ? null : "more";
}

async function refreshTotal(node) {
  const page = await read("children", { path: node.path, limit: 1 });
  node.total = page.total;
}

async function refreshRows(node) {
  const wanted = Math.max(PAGE, node.children.length);
  let children = [];
  let page = { next: null, total: 0 };
  do {
    page = await read("children", { path: node.path, after: page.next, limit: Math.min(1000, wanted) });
    children = [...children, ...fresh(node, page)];
  } while (page.next !== null && children.length < wanted);
  merge(node, children, page);
}

/** The nodes of a page; known ones keep their expanded children. */
function fresh(node, page) {
  const known = new Map((node.children ?? []).map((child) => [child.name, child]));
  return page.children.map((info) => {
    const child = known.get(info.name) ?? new TreeNode(childOf(node.path, info.name), info);
    child.info = info;
    return child;
  });
}

function merge(node, children, page) {
  node.children = children;
  node.next = page.next ?? null;
  node.total = page.total;
  node.info = { ...node.info, num_children: page.total };
}

function isPinnedIn(page, child) {
  return page.children.some((info) => info.name === child.name);
}

function pin(node, path) {
  node.children = [
    ...(node.children ?? []),
    new TreeNode(path, { name: nameOf(path), type: "persistent", num_children: 0 }),
  ];
}
