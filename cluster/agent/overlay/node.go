package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
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
	// ways are the ranges whose way outside is set up.
	ways map[netip.Prefix]bool
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
	if err := n.wayOutside(of.Range); err != nil {
		return err
	}
	return forward(of, own, tunnel)
}

// underlay returns the node's address and the device that has it.
func (n *Node) underlay() (address netip.Addr, device netlink.Link, err error) {
	if address, err = netip.ParseAddr(n.Address); err != nil {
		return address, nil, fmt.Errorf("the node's address: %w", err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return address, nil, err
	}
	for _, link := range links {
		all, err := netlink.AddrList(link, netlink.FAMILY_ALL)
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

// addBridge makes the bridge of a network. Its own address is the way outside.
func (n *Node) addBridge(of *Network) (netlink.Link, error) {
	if found, err := netlink.LinkByName(of.bridge()); err == nil {
		return found, nil
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.HardwareAddr = of.bridge(), of.hardware(gateway)
	bridge := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: of.Address(gateway).AsSlice(), Mask: net.CIDRMask(of.Prefix.Bits(), 32)}}
	if err := errors.Join(netlink.AddrAdd(bridge, address), netlink.LinkSetUp(bridge), netlink.RuleAdd(separation(of))); err != nil {
		return nil, errors.Join(fmt.Errorf("bridge: %w", err), netlink.LinkDel(bridge))
	}
	return bridge, proc.SetNetwork("ipv4/conf/"+of.bridge()+"/rp_filter", "1") // no other source address leaves it
}

// vxlanBytes is what VXLAN adds to a packet.
const vxlanBytes = 50

// addTunnel makes the VXLAN device of a network.
func addTunnel(of *Network, own netip.Addr, below, bridge netlink.Link) (netlink.Link, error) {
	if found, err := netlink.LinkByName(of.tunnel()); err == nil {
		return found, nil
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = of.tunnel(), below.Attrs().MTU-vxlanBytes
	attributes.MasterIndex = bridge.Attrs().Index
	tunnel := &netlink.Vxlan{
		LinkAttrs: attributes, VxlanId: of.vni(), SrcAddr: own.AsSlice(), Port: Port, VtepDevIndex: below.Attrs().Index,
	}
	if err := netlink.LinkAdd(tunnel); err != nil {
		return nil, fmt.Errorf("VXLAN device: %w", err)
	}
	err := errors.Join(netlink.LinkSetLearning(tunnel, false), netlink.LinkSetUp(tunnel))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("VXLAN device: %w", err), netlink.LinkDel(tunnel))
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
	there, err := netlink.NeighList(index, unix.AF_BRIDGE)
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

// Connect lets packets through to a replica, by the name of its link, or holds them back.
func Connect(link string, through bool) error {
	device, err := netlink.LinkByName(link)
	if err != nil {
		return fmt.Errorf("link %s of a replica: %w", link, err)
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

// Leave removes the node's part of the network of a link, unless other replicas of the launch are
// here. The link itself is gone with the namespace of its replica.
func (n *Node) Leave(link string) error {
	number, found := numberOf(link)
	if !found {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	of := Network{Number: number}
	for _, each := range links {
		if name := each.Attrs().Name; name != link && strings.HasPrefix(name, of.bridge()+".") {
			return nil
		}
	}
	for _, each := range links {
		if name := each.Attrs().Name; name == link || name == of.tunnel() || name == of.bridge() {
			if failed := netlink.LinkDel(each); failed != nil && !errors.Is(failed, unix.ENODEV) {
				err = errors.Join(err, fmt.Errorf("remove %s: %w", name, failed))
			}
		}
	}
	return errors.Join(err, dropSeparation(&of))
}
