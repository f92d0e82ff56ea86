package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/cluster/api"
)

// Network is the network of a launch, as one of its nodes has it.
type Network struct {
	Number int
	// Prefix has the addresses of the launch's replicas, Range those of all launches.
	Prefix, Range netip.Prefix
	// Nodes has the addresses of the nodes on which other replicas are, by host number.
	Nodes map[int]netip.Addr
	// Own is the host number of the replica. Hosts are all host numbers of the launch.
	Own   int
	Hosts int
}

// ErrOrder means that an order describes no network.
var ErrOrder = errors.New("the order describes no network")

// Read reads the network of an order; nil: the replica has none.
func Read(order *api.Order) (*Network, error) {
	said := order.GetNetwork()
	if said == nil {
		return nil, nil //nolint:nilnil // no network is no error
	}
	n := &Network{
		Number: int(said.GetNumber()), Own: int(said.GetOwn()), Hosts: int(said.GetHosts()), Nodes: map[int]netip.Addr{},
	}
	var err, failed error
	n.Prefix, err = netip.ParsePrefix(said.GetPrefix())
	n.Range, failed = netip.ParsePrefix(said.GetRange())
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOrder, err)
	}
	if !n.Prefix.Addr().Is4() || n.Prefix.Bits() != 24 || !n.Range.Overlaps(n.Prefix) || n.Number <= 0 || n.Number > maxNumber ||
		n.Own < FirstHost || n.Own > lastHost || n.Hosts < n.Own || n.Hosts > lastHost {
		return nil, fmt.Errorf("%w: %v", ErrOrder, said)
	}
	for _, peer := range said.GetPeers() {
		if address, err := netip.ParseAddr(peer.GetNodeAddress()); err == nil {
			n.Nodes[int(peer.GetHost())] = address
		}
	}
	return n, nil
}

// Host numbers are the last byte of an address. The first one is the node's, as the way outside.
const (
	gateway   = 1
	FirstHost = 2
	lastHost  = 254
	maxNumber = 1<<16 - 1
)

// Address returns the address of a host.
func (n *Network) Address(host int) netip.Addr {
	at := n.Prefix.Masked().Addr().As4()
	at[3] = byte(host)
	return netip.AddrFrom4(at)
}

// hardware returns the hardware address of a host. It follows from its address, so that it never
// changes, and all replicas know those of all others.
func (n *Network) hardware(host int) net.HardwareAddr {
	at := n.Address(host).As4()
	const local = 0x02
	return net.HardwareAddr{local, 0x70, at[0], at[1], at[2], at[3]}
}

// Names of devices. All networks of launches begin with the same letters.
const (
	namePrefix  = "phos"
	vxlanSuffix = "v"
)

// bridge is the name of the network's bridge.
func (n *Network) bridge() string { return namePrefix + strconv.Itoa(n.Number) }

// tunnel is the name of its VXLAN device.
func (n *Network) tunnel() string { return n.bridge() + vxlanSuffix }

// Link is the name of the node's end of the replica's link.
func (n *Network) Link() string { return fmt.Sprintf("%s.%d", n.bridge(), n.Own) }

// numberOf returns the number of the network of a link.
func numberOf(link string) (number int, found bool) {
	bridge, _, isLink := strings.Cut(link, ".")
	text, ours := strings.CutPrefix(bridge, namePrefix)
	number, err := strconv.Atoi(text)
	return number, isLink && ours && err == nil
}

// vni returns the number of the network in packets between nodes.
func (n *Network) vni() int {
	const first = 0x700000 // so that it differs from those that other software begins with
	return first + n.Number
}
