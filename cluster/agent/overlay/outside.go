package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// guard lets the replicas of all launches reach what is outside of their networks, by this node's
// address, and nothing else. The rules are written again each time: a firewall may have flushed
// them.
func guard(all netip.Prefix, below string) error {
	if err := proc.SetNetwork("ipv4/ip_forward", "1"); err != nil {
		return fmt.Errorf("forward packets: %w", err)
	}
	if err := rules(all, below).Flush(); err != nil {
		return fmt.Errorf("rules for networks of launches: %w", err)
	}
	return nil
}

// Where headers of IPv4 and UDP have addresses and ports.
const (
	source, destination = 12, 16
	destinationPort     = 2
)

// rules makes the rules of a range, in a table of their own.
func rules(all netip.Prefix, below string) *nftables.Conn {
	c := &nftables.Conn{}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "phos-launches"})
	c.DelTable(table) // with the rules of before
	table = c.AddTable(table)
	chain := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) func(...[]expr.Any) {
		made := c.AddChain(&nftables.Chain{Name: name, Table: table, Type: kind, Hooknum: hook, Priority: priority})
		return func(parts ...[]expr.Any) {
			c.AddRule(&nftables.Rule{Table: table, Chain: made, Exprs: slices.Concat(parts...)})
		}
	}
	drop := []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}

	leaving := chain("leaving", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	leaving(within(source, all, expr.CmpOpEq), within(destination, all, expr.CmpOpNeq), []expr.Any{&expr.Masq{}})

	passing := chain("passing", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	// A replica has no address but its own, and is no node.
	passing(fromReplicas(expr.CmpOpEq), within(source, all, expr.CmpOpNeq), drop)
	passing(within(source, all, expr.CmpOpEq), toTunnel(), drop)
	// Nothing from outside reaches replicas but answers.
	passing(fromReplicas(expr.CmpOpNeq), within(destination, all, expr.CmpOpEq), isNew(), drop)

	// Packets of networks come from other nodes, and are sent by the kernel.
	arriving := chain("arriving", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter)
	arriving(toTunnel(), deviceName(expr.MetaKeyIIFNAME, expr.CmpOpNeq, below+"\x00"), drop)
	sending := chain("sending", nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter)
	sending(toTunnel(), []expr.Any{
		&expr.Meta{Key: expr.MetaKeySKUID, Register: register},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: binaryutil.NativeEndian.PutUint32(0)},
	}, drop)
	return c
}

// register is where rules compare.
const register = 1

// fromReplicas matches packets from bridges of launches, or from others.
func fromReplicas(is expr.CmpOp) []expr.Any { return deviceName(expr.MetaKeyIIFNAME, is, namePrefix) }

// deviceName compares the beginning of a device's name.
func deviceName(key expr.MetaKey, is expr.CmpOp, name string) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: key, Register: register}, &expr.Cmp{Op: is, Register: register, Data: []byte(name)},
	}
}

// toTunnel matches what is sent to the port of VXLAN.
func toTunnel() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{unix.IPPROTO_UDP}},
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: destinationPort, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binaryutil.BigEndian.PutUint16(Port)},
	}
}

// isNew matches packets that belong to no connection of before.
func isNew() []expr.Any {
	known := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: register},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4, Mask: known, Xor: binaryutil.NativeEndian.PutUint32(0),
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binaryutil.NativeEndian.PutUint32(0)},
	}
}

// within compares an address of a packet with a range.
func within(offset uint32, all netip.Prefix, is expr.CmpOp) []expr.Any {
	const bytes = 4
	return []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: bytes},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: bytes,
			Mask: net.CIDRMask(all.Bits(), 8*bytes), Xor: binaryutil.NativeEndian.PutUint32(0),
		},
		&expr.Cmp{Op: is, Register: register, Data: all.Masked().Addr().AsSlice()},
	}
}

// separate writes that rule, unless it is there.
func separate(of *Network) error {
	err := netlink.RuleAdd(separation(of))
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
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
	all, err := whole(func() ([]netlink.Rule, error) { return netlink.RuleList(netlink.FAMILY_V4) })
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
