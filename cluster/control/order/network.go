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

// prefix returns the addresses of the network with a number.
func (m Maker) prefix(number int) netip.Prefix {
	at := m.Networks.Masked().Addr().As4()
	third := int(at[1])<<8 + int(at[2]) + number
	at[1], at[2] = byte(third>>8), byte(third)
	return netip.PrefixFrom(netip.AddrFrom4(at), prefixBits)
}

// network returns what an agent must know of the network of a launch; nil: it has none.
func (m Maker) network(l *record.Launch, replica int) *api.Network {
	if l.Network == 0 {
		return nil
	}
	out := &api.Network{
		Number: uint32(l.Network), Prefix: m.prefix(l.Network).String(), Range: m.Networks.String(),
		Own: uint32(firstHost + replica), Hosts: uint32(firstHost + len(l.State.Replicas) - 1),
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
	at := m.prefix(l.Network).Addr().As4()
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
