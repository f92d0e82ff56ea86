package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// wayOutside lets the replicas of all launches reach what is outside of their networks, by this
// node's address.
func (n *Node) wayOutside(all netip.Prefix) error {
	if n.ways[all] {
		return nil
	}
	if err := proc.SetNetwork("ipv4/ip_forward", "1"); err != nil {
		return fmt.Errorf("forward packets: %w", err)
	}
	if err := translate(all); err != nil {
		return fmt.Errorf("translate addresses: %w", err)
	}
	if n.ways == nil {
		n.ways = map[netip.Prefix]bool{}
	}
	n.ways[all] = true
	return nil
}

// translate writes the rules of a range into a table of their own.
func translate(all netip.Prefix) error {
	rules := &nftables.Conn{}
	table := rules.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "phos-launches"})
	rules.DelTable(table) // with the rules of an earlier agent
	table = rules.AddTable(table)
	leaving := rules.AddChain(&nftables.Chain{
		Name: "leaving", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	const source, destination = 12, 16 // where a header of IPv4 has them
	from := within(source, all, expr.CmpOpEq)
	rules.AddRule(&nftables.Rule{
		Table: table, Chain: leaving,
		Exprs: append(append(from, within(destination, all, expr.CmpOpNeq)...), &expr.Masq{}),
	})
	return rules.Flush()
}

// within compares an address of a packet with a range.
func within(offset uint32, all netip.Prefix, is expr.CmpOp) []expr.Any {
	const register, bytes = 1, 4
	return []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: bytes},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: bytes,
			Mask: net.CIDRMask(all.Bits(), 8*bytes), Xor: binaryutil.NativeEndian.PutUint32(0),
		},
		&expr.Cmp{Op: is, Register: register, Data: all.Masked().Addr().AsSlice()},
	}
}

// separation is a rule of routing: no packet goes from a network to another one.
func separation(of *Network) *netlink.Rule {
	const before = 7000 // the rule for the main table
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.Type = netlink.FAMILY_V4, before, unix.FR_ACT_PROHIBIT
	rule.IifName = of.bridge()
	if of.Range.IsValid() {
		rule.Dst = &net.IPNet{IP: of.Range.Addr().AsSlice(), Mask: net.CIDRMask(of.Range.Bits(), 32)}
	}
	return rule
}

// dropSeparation removes the rules of a network that is removed.
func dropSeparation(of *Network) error {
	all, err := netlink.RuleList(netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].IifName == of.bridge() {
			all[i].Type = unix.FR_ACT_PROHIBIT // the list leaves it out
			err = errors.Join(err, netlink.RuleDel(&all[i]))
		}
	}
	return err
}
