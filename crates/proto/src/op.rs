//! Operation codes of requests and txns.

macro_rules! op_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $apache:literal;)*) => {
        /// The kind of a request or txn.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        pub enum OpCode { $($(#[$doc])* $name = $code,)* }

        impl OpCode {
            /// Every code, for tables and tests.
            pub const ALL: &[OpCode] = &[$(OpCode::$name),*];

            /// The op for a number on the wire.
            #[must_use]
            pub fn from_code(code: i32) -> Option<OpCode> {
                match code { $($code => Some(OpCode::$name),)* _ => None }
            }

            /// Apache's name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(OpCode::$name => $apache,)* }
            }
        }
    };
}

op_codes! {
    /// A txn or multi result that is only an error.
    Error = -1, "error";
    /// Open a session.
    CreateSession = -10, "createSession";
    /// Close the session.
    CloseSession = -11, "closeSession";
    /// Create a znode, return its path.
    Create = 1, "create";
    /// Delete a znode.
    Delete = 2, "delete";
    /// Stat of a znode that may not exist.
    Exists = 3, "exists";
    /// Data and stat.
    GetData = 4, "getData";
    /// Replace the data.
    SetData = 5, "setData";
    /// ACL and stat.
    GetAcl = 6, "getACL";
    /// Replace the ACL.
    SetAcl = 7, "setACL";
    /// Names of the children.
    GetChildren = 8, "getChildren";
    /// Catch up with the leader.
    Sync = 9, "sync";
    /// Heartbeat.
    Ping = 11, "ping";
    /// Names of the children, and stat.
    GetChildren2 = 12, "getChildren2";
    /// Check a version, inside a multi only.
    Check = 13, "check";
    /// Several writes, all or none.
    Multi = 14, "multi";
    /// Create a znode, return path and stat.
    Create2 = 15, "create2";
    /// Change the ensemble's members.
    Reconfig = 16, "reconfig";
    /// Check whether a watch is set.
    CheckWatches = 17, "checkWatches";
    /// Remove watches.
    RemoveWatches = 18, "removeWatches";
    /// Create a container znode.
    CreateContainer = 19, "createContainer";
    /// Delete an empty container or expired TTL znode; only a server's own sweep sends it.
    DeleteContainer = 20, "deleteContainer";
    /// Create a znode with a time to live.
    CreateTtl = 21, "createTTL";
    /// Several reads in one request.
    MultiRead = 22, "multiRead";
    /// Present credentials.
    Auth = 100, "auth";
    /// Register watches again after a reconnect.
    SetWatches = 101, "setWatches";
    /// A step of a SASL exchange.
    Sasl = 102, "sasl";
    /// The session's own ephemerals.
    GetEphemerals = 103, "getEphemerals";
    /// Number of descendants.
    GetAllChildrenNumber = 104, "getAllChildrenNumber";
    /// Register watches again, persistent ones too.
    SetWatches2 = 105, "setWatches2";
    /// Add a persistent watch.
    AddWatch = 106, "addWatch";
    /// The ids of the connection.
    WhoAmI = 107, "whoAmI";
}

impl OpCode {
    /// The number on the wire.
    #[must_use]
    pub fn code(self) -> i32 {
        self as i32
    }

    /// Whether a client's request of this kind becomes a txn.
    #[must_use]
    pub fn is_write(self) -> bool {
        matches!(
            self,
            OpCode::Create
                | OpCode::Create2
                | OpCode::CreateContainer
                | OpCode::CreateTtl
                | OpCode::Delete
                | OpCode::SetData
                | OpCode::SetAcl
                | OpCode::Multi
                | OpCode::Reconfig
                | OpCode::CloseSession
        )
    }
}
