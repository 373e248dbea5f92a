//! The network of an address, for limits per client.
//!
//! An IPv4 address is a network of its own. With IPv6 a single host can use all addresses of a /64 at least, so all
//! addresses of a /64 count as one.

use std::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or the first half of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AddressBlock(IpAddr);

impl AddressBlock {
    /// The network of an address. IPv4-mapped IPv6 addresses count as IPv4.
    pub(crate) fn of(address: IpAddr) -> Self {
        const HOST_BITS: u32 = 64;
        AddressBlock(match address.to_canonical() {
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() >> HOST_BITS << HOST_BITS).into()
            }
            address @ IpAddr::V4(_) => address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_of_a_64_count_as_one() {
        let network = |address: &str| AddressBlock::of(address.parse().unwrap());
        assert_eq!(network("2001:db8:1:2::3"), network("2001:db8:1:2:ffff::4"));
        assert_ne!(network("2001:db8:1:2::3"), network("2001:db8:1:3::3"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("::ffff:192.0.2.1"), network("192.0.2.2"));
    }
}
