package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Port is the UDP port of packets between nodes.
const Port = 9414

// Node is this node's part of all networks.
type Node struct {
	// Address is by which other nodes reach this one.
	Address string

	mu sync.Mutex // one change at a time
}

// Update makes the node's part of a network, or changes where its other replicas are.
func (n *Node) Update(of *Network) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.update(of); err != nil {
		return fmt.Errorf("network %d of launches: %w", of.Number, err)
	}
	return nil
}

// update does it. The caller holds the lock.
func (n *Node) update(of *Network) error {
	own, below, err := n.underlay()
	if err != nil {
		return err
	}
	bridge, err := n.addBridge(of)
	if err != nil {
		return err
	}
	tunnel, err := addTunnel(of, own, below, bridge)
	if err != nil {
		return err
	}
	if err := guard(of.Range, below.Attrs().Name); err != nil {
		return err
	}
	return forward(of, own, tunnel)
}

// underlay returns the node's address and the device that has it.
func (n *Node) underlay() (address netip.Addr, device netlink.Link, err error) {
	if address, err = netip.ParseAddr(n.Address); err != nil {
		return address, nil, fmt.Errorf("the node's address: %w", err)
	}
	links, err := whole(netlink.LinkList)
	if err != nil {
		return address, nil, err
	}
	for _, link := range links {
		all, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
		if err != nil {
			return address, nil, err
		}
		for _, each := range all {
			if found, ok := netip.AddrFromSlice(each.IP); ok && found.Unmap() == address {
				return address, link, nil
			}
		}
	}
	return address, nil, fmt.Errorf("no device has the node's address %s", address)
}

// addBridge makes the bridge of a network, or completes it. Its own address is the way outside.
func (n *Node) addBridge(of *Network) (netlink.Link, error) {
	bridge, err := netlink.LinkByName(of.bridge())
	if err != nil {
		attributes := netlink.NewLinkAttrs()
		attributes.Name, attributes.HardwareAddr = of.bridge(), of.hardware(gateway)
		bridge = &netlink.Bridge{LinkAttrs: attributes}
		if err := netlink.LinkAdd(bridge); err != nil {
			return nil, fmt.Errorf("bridge: %w", err)
		}
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: of.Address(gateway).AsSlice(), Mask: net.CIDRMask(of.Prefix.Bits(), 32)}}
	err = errors.Join(
		withoutIPv6(of.bridge()), netlink.LinkSetHardwareAddr(bridge, of.hardware(gateway)), netlink.AddrReplace(bridge, address), netlink.LinkSetUp(bridge), separate(of),
		proc.SetNetwork("ipv4/conf/"+of.bridge()+"/rp_filter", "1"),
	)
	if err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	return bridge, nil
}

// withoutIPv6 keeps the node from listening to what replicas say about routes of IPv6.
func withoutIPv6(name string) error {
	err := proc.SetNetwork("ipv6/conf/"+name+"/disable_ipv6", "1")
	if errors.Is(err, os.ErrNotExist) {
		return nil // a kernel without IPv6
	}
	return err
}

// What VXLAN adds to a packet, over IPv4 and IPv6.
const (
	vxlanBytes  = 50
	vxlan6Bytes = 70
)

// addTunnel makes the VXLAN device of a network, or completes it.
func addTunnel(of *Network, own netip.Addr, below, bridge netlink.Link) (netlink.Link, error) {
	tunnel, err := netlink.LinkByName(of.tunnel())
	if err != nil {
		attributes := netlink.NewLinkAttrs()
		attributes.Name, attributes.MTU = of.tunnel(), below.Attrs().MTU-vxlanBytes
		if own.Is6() {
			attributes.MTU = below.Attrs().MTU - vxlan6Bytes
		}
		tunnel = &netlink.Vxlan{
			LinkAttrs: attributes, VxlanId: of.vni(), SrcAddr: own.AsSlice(), Port: Port, VtepDevIndex: below.Attrs().Index,
		}
		if err := netlink.LinkAdd(tunnel); err != nil {
			return nil, fmt.Errorf("VXLAN device: %w", err)
		}
	}
	err = errors.Join(
		withoutIPv6(of.tunnel()), netlink.LinkSetMasterByIndex(tunnel, bridge.Attrs().Index),
		netlink.LinkSetLearning(tunnel, false), netlink.LinkSetUp(tunnel),
	)
	if err != nil {
		return nil, fmt.Errorf("VXLAN device: %w", err)
	}
	return tunnel, nil
}

// forward sets to which nodes packets for other replicas are sent.
func forward(of *Network, own netip.Addr, tunnel netlink.Link) error {
	wanted := map[string]netip.Addr{}
	for host, node := range of.Nodes {
		if node != own {
			wanted[of.hardware(host).String()] = node
		}
	}
	index := tunnel.Attrs().Index
	there, err := whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(index, unix.AF_BRIDGE) })
	if err != nil {
		return fmt.Errorf("forwarding entries: %w", err)
	}
	for i := range there {
		entry := &there[i]
		node, isNode := netip.AddrFromSlice(entry.IP)
		if !isNode || entry.Flags&netlink.NTF_SELF == 0 {
			continue
		}
		if wanted[entry.HardwareAddr.String()] == node.Unmap() {
			delete(wanted, entry.HardwareAddr.String())
		} else if err := netlink.NeighDel(entry); err != nil {
			return fmt.Errorf("remove a forwarding entry: %w", err)
		}
	}
	for text, node := range wanted {
		hardware, err := net.ParseMAC(text)
		if err != nil {
			return err // never: it was written by String
		}
		entry := &netlink.Neigh{
			LinkIndex: index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF,
			HardwareAddr: hardware, IP: node.AsSlice(),
		}
		if err := netlink.NeighSet(entry); err != nil {
			return fmt.Errorf("forwarding entry: %w", err)
		}
	}
	return nil
}

// linkOf returns the link of an attempt, by its key: a later attempt may have one of the same name.
func linkOf(link, key string) (netlink.Link, error) {
	device, err := netlink.LinkByName(link)
	if err == nil && device.Attrs().Alias != key {
		err = errors.New("it is another attempt's")
	}
	if err != nil {
		return nil, fmt.Errorf("link %s of a replica: %w", link, err)
	}
	return device, nil
}

// Connect lets packets through to an attempt, or holds them back.
func Connect(link, key string, through bool) error {
	device, err := linkOf(link, key)
	if err != nil {
		return err
	}
	if through {
		err = netlink.LinkSetUp(device)
	} else {
		err = netlink.LinkSetDown(device)
	}
	if err != nil {
		return fmt.Errorf("link %s of a replica: %w", link, err)
	}
	return nil
}

// There reports whether the link of an attempt is there. It goes with the attempt's namespace,
// which stays as long as data waits to be sent.
func There(link, key string) bool {
	_, err := linkOf(link, key)
	return err == nil
}

// Leave removes the link of an attempt, and the node's part of its network, unless other replicas
// of the launch are here.
func (n *Node) Leave(link, key string) error {
	number, found := numberOf(link)
	if !found {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if device, err := linkOf(link, key); err == nil {
		if err := netlink.LinkDel(device); err != nil {
			return fmt.Errorf("remove %s: %w", link, err)
		}
	}
	links, err := whole(netlink.LinkList)
	if err != nil {
		return err
	}
	return removeUnused(&Network{Number: number}, links)
}

// removeUnused removes the node's part of a network to which no replica is linked.
func removeUnused(of *Network, links []netlink.Link) (err error) {
	for _, each := range links {
		if strings.HasPrefix(each.Attrs().Name, of.bridge()+".") {
			return nil
		}
	}
	for _, each := range links {
		if name := each.Attrs().Name; name == of.tunnel() || name == of.bridge() {
			if failed := netlink.LinkDel(each); failed != nil && !errors.Is(failed, unix.ENODEV) {
				err = errors.Join(err, fmt.Errorf("remove %s: %w", name, failed))
			}
		}
	}
	return errors.Join(err, dropSeparation(of))
}

// Sweep removes what an earlier agent has left of networks to which no replica is linked.
func (n *Node) Sweep() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	links, err := whole(netlink.LinkList)
	if err != nil {
		return err
	}
	for _, each := range links {
		if number, found := numberOf(each.Attrs().Name + "."); found && each.Type() == "bridge" {
			err = errors.Join(err, removeUnused(&Network{Number: number}, links))
		}
	}
	return err
}
