package order

import (
	"net/netip"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/record"
)

// firstHost is the last byte of the address of the first replica: the node has the one before.
const firstHost = 2

// prefixBits is the size of a launch's network, and so the most replicas it can have.
const prefixBits = 24

// CountOf returns how many networks a range has. The first one is not used.
func CountOf(all netip.Prefix) int { return 1<<(prefixBits-all.Bits()) - 1 }

// PrefixOf returns the addresses of the network of a range with a number.
func PrefixOf(all netip.Prefix, number int) netip.Prefix {
	at := all.Masked().Addr().As4()
	middle := int(at[1])<<8 + int(at[2]) + number
	at[1], at[2] = byte(middle>>8), byte(middle)
	return netip.PrefixFrom(netip.AddrFrom4(at), prefixBits)
}

// network returns what an agent must know of the network of a launch; nil: it has none. Its
// addresses stay, also if the controllers have another range by now.
func (m Maker) network(l *record.Launch, replica int) *api.Network {
	if l.Network == 0 {
		return nil
	}
	out := &api.Network{
		Number: uint32(l.Network), Prefix: l.Prefix, Range: m.Networks.String(),
		Own: uint32(firstHost + replica), Hosts: uint32(firstHost + len(l.State.Replicas) - 1),
	}
	if prefix, err := netip.ParsePrefix(l.Prefix); err == nil && !m.Networks.Overlaps(prefix) {
		out.Range = l.Prefix
	}
	for i := range l.State.Replicas {
		if r := &l.State.Replicas[i]; r.Live {
			out.Peers = append(out.Peers, &api.NetworkPeer{Host: uint32(firstHost + i), NodeAddress: m.Address(r.Node)})
		}
	}
	return out
}

// addressOf returns by which address other replicas reach one.
func (m Maker) addressOf(l *record.Launch, replica int) string {
	if l.Network == 0 {
		return m.Address(l.State.Replicas[replica].Node)
	}
	prefix, err := netip.ParsePrefix(l.Prefix)
	if err != nil {
		return "" // never: a leader has written it
	}
	at := prefix.Addr().As4()
	at[3] = byte(firstHost + replica)
	return netip.AddrFrom4(at).String()
}

// deviceOf returns the name of the device of a network of its own; empty: the launch has none.
func deviceOf(l *record.Launch) string {
	if l.Network == 0 {
		return ""
	}
	return "eth0"
}
