package overlay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/internal/linux/namespace"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Join makes the namespace of a replica, which belongs to a user. It has its address, and the link
// to the network, which holds packets back until Connect. The caller starts processes in it, and
// closes it: it lasts as long as one of these. The key names the attempt: others leave its link
// alone.
func (n *Node) Join(ctx context.Context, of *Network, as saver.Owner, key string) (*os.File, error) {
	space, err := newNamespace(ctx, as)
	if err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.update(of); err != nil {
		return nil, errors.Join(fmt.Errorf("network %d of launches: %w", of.Number, err), space.Close())
	}
	if left, err := netlink.LinkByName(of.Link()); err == nil {
		_ = netlink.LinkDel(left) // of an earlier attempt, which has ended
	}
	if err := errors.Join(link(of, space, key), configure(of, space)); err != nil {
		return nil, errors.Join(fmt.Errorf("network namespace: %w", err), space.Close())
	}
	return space, nil
}

// device is the name of the link inside of a namespace.
const device = "eth0"

// link connects a namespace with the network. The node's end is down.
func link(of *Network, space *os.File, key string) error {
	bridge, err := netlink.LinkByName(of.bridge())
	if err != nil {
		return err
	}
	tunnel, err := netlink.LinkByName(of.tunnel())
	if err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU, attributes.MasterIndex = of.Link(), tunnel.Attrs().MTU, bridge.Attrs().Index
	pair := &netlink.Veth{
		LinkAttrs: attributes, PeerName: device, PeerHardwareAddr: of.hardware(of.Own), PeerMTU: uint32(attributes.MTU),
		PeerNamespace: netlink.NsFd(int(space.Fd())),
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("link: %w", err)
	}
	return errors.Join(
		netlink.LinkSetAlias(pair, key), netlink.LinkSetLearning(pair, false), withoutIPv6(of.Link()),
	)
}

// configure sets addresses, routes and settings inside of a namespace.
func configure(of *Network, space *os.File) error {
	inside, err := netlink.NewHandleAt(netns.NsHandle(space.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer inside.Close()
	own, err := inside.LinkByName(device)
	if err != nil {
		return err
	}
	loopback, err := inside.LinkByName("lo")
	if err != nil {
		return err
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: of.Address(of.Own).AsSlice(), Mask: net.CIDRMask(of.Prefix.Bits(), 32)}}
	if err := errors.Join(inside.LinkSetUp(loopback), inside.AddrAdd(own, address), inside.LinkSetUp(own)); err != nil {
		return err
	}
	for host := gateway; host <= of.Hosts; host++ {
		if host == of.Own {
			continue
		}
		entry := &netlink.Neigh{
			LinkIndex: own.Attrs().Index, State: netlink.NUD_PERMANENT,
			IP: of.Address(host).AsSlice(), HardwareAddr: of.hardware(host),
		}
		if err := inside.NeighSet(entry); err != nil {
			return fmt.Errorf("neighbor %s: %w", of.Address(host), err)
		}
	}
	route := &netlink.Route{LinkIndex: own.Attrs().Index, Gw: of.Address(gateway).AsSlice()}
	if err := inside.RouteAdd(route); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	return namespace.Do([]*os.File{space}, patience)
}

// patience lets connections wait for an end that is being moved, and go on at once when it is back.
// Kernels that do not have a setting wait longer.
func patience() error {
	for name, value := range map[string]string{
		"tcp_retries2":   "255",  // it gives up after hours
		"tcp_rto_max_ms": "1000", // it tries at least once a second
		"tcp_rto_min_us": "5000", // and much more often at first
	} {
		if err := proc.SetNetwork("ipv4/"+name, value); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
