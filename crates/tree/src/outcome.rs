//! The result of a txn, for the reply to its client. Apache: `ProcessTxnResult`.

use herdsman_proto::multi::{MultiHeader, encode_error_result};
use herdsman_proto::txn::Data;
use herdsman_proto::{ErrorCode, JuteWrite, OpCode, Stat};

/// The effect of one txn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A znode was created.
    Created {
        /// Its full path, sequence number included.
        path: Box<str>,
        /// Its stat, for the ops whose reply has one.
        stat: Option<Stat>,
    },
    /// A znode was deleted.
    Deleted,
    /// Data was replaced.
    DataSet(Stat),
    /// The membership was replaced by this text.
    Reconfigured {
        /// The data of the znode.
        text: Data,
        /// Its stat.
        stat: Stat,
    },
    /// An ACL was replaced.
    AclSet(Stat),
    /// A version check succeeded.
    Checked,
    /// The results of a multi, one for each operation. If one is a failure, all are.
    Multi(Vec<Outcome>),
    /// A session was opened or closed.
    Session,
    /// An error; `None` for the operations before the failure in a failed multi.
    Failed(Option<ErrorCode>),
}

impl Outcome {
    /// A failure with its code.
    #[must_use]
    pub fn failed(code: ErrorCode) -> Self {
        Outcome::Failed(Some(code))
    }

    /// Appends the body of the reply; an error has none.
    pub fn encode_reply(&self, out: &mut Vec<u8>) -> Result<(), ErrorCode> {
        match self {
            Outcome::Failed(Some(code)) => return Err(*code),
            Outcome::Multi(results) => {
                for result in results {
                    result.encode_multi_result(out);
                }
                MultiHeader::END.encode(out);
            }
            single => single.encode_body(out),
        }
        Ok(())
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Outcome::Created { path, stat } => {
                out.put_string(path);
                if let Some(stat) = stat {
                    stat.encode(out);
                }
            }
            Outcome::DataSet(stat) | Outcome::AclSet(stat) => stat.encode(out),
            Outcome::Reconfigured { text, stat } => {
                out.put_buffer(text.as_deref());
                stat.encode(out);
            }
            Outcome::Deleted | Outcome::Checked | Outcome::Session => {}
            Outcome::Failed(_) | Outcome::Multi(_) => {}
        }
    }

    fn encode_multi_result(&self, out: &mut Vec<u8>) {
        let op = match self {
            Outcome::Created { stat: None, .. } => OpCode::Create,
            Outcome::Created { stat: Some(_), .. } => OpCode::Create2,
            Outcome::DataSet(_) => OpCode::SetData,
            Outcome::AclSet(_) => OpCode::SetAcl,
            Outcome::Checked => OpCode::Check,
            Outcome::Deleted => OpCode::Delete,
            Outcome::Failed(code) => return encode_error_result(*code, out),
            Outcome::Multi(_) | Outcome::Session | Outcome::Reconfigured { .. } => return,
        };
        MultiHeader::result(op).encode(out);
        self.encode_body(out);
    }
}
