package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/internal/linux/namespace"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// uid is that of the replicas' owner.
const uid = 65534

// TestMain is also the main function of what makes namespaces.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Role {
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

// key names the attempts of these tests.
const key = "l-1.0.1"

// machine is a node: a network namespace, and a goroutine whose thread is in it.
type machine struct {
	*testing.T
	address string
	node    *Node
	space   *os.File
	todo    chan func()
}

// machines returns nodes that are connected with each other.
func machines(t *testing.T, count int) (all []*machine) {
	t.Helper()
	if os.Getuid() != 0 {
		harness.Need(t, "root", fmt.Errorf("uid is %d", os.Getuid()))
	}
	hub := newMachine(t, "")
	hub.do(func() error { return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "hub"}}) })
	for i := range count {
		m := newMachine(t, fmt.Sprintf("192.0.2.%d", i+1))
		hub.do(func() error {
			bridge, err := netlink.LinkByName("hub")
			if err != nil {
				return err
			}
			port := &netlink.Veth{
				LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprint("port", i), MasterIndex: bridge.Attrs().Index},
				PeerName:  "up0", PeerNamespace: netlink.NsFd(int(m.space.Fd())),
			}
			if err := netlink.LinkAdd(port); err != nil {
				return err
			}
			return firstOf(netlink.LinkSetUp(port), netlink.LinkSetUp(bridge))
		})
		m.do(func() error {
			up, err := netlink.LinkByName("up0")
			if err != nil {
				return err
			}
			address, err := netlink.ParseAddr(m.address + "/24")
			if err != nil {
				return err
			}
			return firstOf(netlink.AddrAdd(up, address), netlink.LinkSetUp(up))
		})
		all = append(all, m)
	}
	return all
}

// firstOf returns the first error.
func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// newMachine makes a network namespace.
func newMachine(t *testing.T, address string) *machine {
	t.Helper()
	m := &machine{T: t, address: address, node: &Node{Address: address}, todo: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			m.space, err = proc.OpenOwnNamespace("net")
		}
		ready <- err
		for do := range m.todo {
			do()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(m.todo)
		_ = m.space.Close()
	})
	return m
}

// do does something in the node's namespace.
func (m *machine) do(what func() error) {
	m.Helper()
	done := make(chan error)
	m.todo <- func() { done <- what() }
	if err := <-done; err != nil {
		m.Fatal(err)
	}
}

// network returns the network of a launch whose replicas are on nodes, as one of them has it.
func network(number, own int, on ...*machine) *Network {
	n := &Network{
		Number: number, Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, byte(number), 0}), 24),
		Range: netip.MustParsePrefix("10.213.0.0/16"), Own: FirstHost + own, Hosts: FirstHost + len(on) - 1, Nodes: map[int]netip.Addr{},
	}
	for i, m := range on {
		n.Nodes[FirstHost+i] = netip.MustParseAddr(m.address)
	}
	return n
}

// join makes the namespace of a replica.
func (m *machine) join(n *Network) (space *os.File) {
	m.Helper()
	m.do(func() (err error) {
		space, err = m.node.Join(m.Context(), n, saver.Owner{UID: uid, GID: uid}, key)
		return err
	})
	m.Cleanup(func() { _ = space.Close() })
	return space
}

// connect lets packets through to a replica, or not.
func (m *machine) connect(n *Network, through bool) {
	m.Helper()
	m.do(func() error { return Connect(n.Link(), key, through) })
}

// inNamespace does something in a namespace.
func inNamespace(space *os.File, do func() error) error { return namespace.Do([]*os.File{space}, do) }

// listen answers connections in a namespace with the address of the caller, until the test ends.
func listen(t *testing.T, space *os.File, address string) {
	t.Helper()
	err := inNamespace(space, func() error {
		listener, err := net.Listen("tcp4", address)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				fmt.Fprint(connection, connection.RemoteAddr().(*net.TCPAddr).IP)
				_ = connection.Close()
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ask connects from a namespace, and returns the answer.
func ask(space *os.File, address string, patience time.Duration) (answer string, err error) {
	err = inNamespace(space, func() error {
		connection, err := (&net.Dialer{Timeout: patience}).Dial("tcp4", address)
		if err != nil {
			return err
		}
		defer connection.Close()
		text := make([]byte, 100)
		n, err := connection.Read(text)
		answer = string(text[:n])
		return err
	})
	return answer, err
}

// long is how long a connection may take that succeeds, short how long one is waited for that must
// not be made.
const (
	long  = 10 * time.Second
	short = 300 * time.Millisecond
)

// TestReach: replicas reach each other on one node and on two, by addresses that stay when one
// moves; not before they are connected, and not those of another launch.
func TestReach(t *testing.T) {
	all := machines(t, 3)
	here, there, other := all[0], all[1], all[2]
	on := []*machine{here, here, there}
	var spaces []*os.File
	for i, m := range on {
		spaces = append(spaces, m.join(network(7, i, on...)))
		listen(t, spaces[i], ":5000")
	}
	if _, err := ask(spaces[0], "10.213.7.4:5000", short); err == nil {
		t.Error("a packet has passed before the replicas are connected")
	}
	for i, m := range on {
		m.connect(network(7, i, on...), true)
	}
	for i := range on {
		for k := range on {
			got, err := ask(spaces[i], fmt.Sprintf("10.213.7.%d:5000", FirstHost+k), long)
			if want := fmt.Sprintf("10.213.7.%d", FirstHost+i); err != nil || got != want {
				t.Errorf("from %d to %d: %q, %v, want %q", i, k, got, err, want)
			}
		}
	}
	stranger := there.join(network(8, 0, there))
	there.connect(network(8, 0, there), true)
	listen(t, stranger, ":5000")
	for _, to := range []string{"10.213.7.4:5000", "10.213.7.2:5000"} {
		if _, err := ask(stranger, to, short); err == nil {
			t.Errorf("another launch reaches %s", to)
		}
	}
	there.connect(network(7, 2, on...), false)
	if _, err := ask(spaces[0], "10.213.7.4:5000", short); err == nil {
		t.Error("a packet has passed to a replica that is held back")
	}
	// It goes on on another node.
	moved := []*machine{here, here, other}
	spaces[2] = other.join(network(7, 2, moved...))
	listen(t, spaces[2], ":5000")
	here.do(func() error { return here.node.Update(network(7, 0, moved...)) })
	other.connect(network(7, 2, moved...), true)
	for _, pair := range [][2]int{{0, 2}, {2, 0}, {1, 2}, {2, 1}} {
		if _, err := ask(spaces[pair[0]], fmt.Sprintf("10.213.7.%d:5000", FirstHost+pair[1]), long); err != nil {
			t.Errorf("after a move, from %d to %d: %v", pair[0], pair[1], err)
		}
	}
}

// TestOutside: a replica reaches what is outside by its node's address.
func TestOutside(t *testing.T) {
	all := machines(t, 2)
	space := all[0].join(network(7, 0, all[0]))
	all[0].connect(network(7, 0, all[0]), true)
	listen(t, all[1].space, ":6000")
	if got, err := ask(space, all[1].address+":6000", long); err != nil || got != all[0].address {
		t.Errorf("the other side sees %q, %v, want %s", got, err, all[0].address)
	}
}

// TestOwner: the namespace belongs to the launch's owner, so that connections in it can be repaired
// with this user's rights.
func TestOwner(t *testing.T) {
	m := machines(t, 1)[0]
	space := m.join(network(7, 0, m))
	users, err := unix.IoctlRetInt(int(space.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(users)
	if owner, err := unix.IoctlGetUint32(users, unix.NS_GET_OWNER_UID); err != nil || owner != uid {
		t.Errorf("the owner is %d, %v, want %d", owner, err, uid)
	}
	inside, err := netlink.NewHandleAt(netns.NsHandle(space.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	links, err := inside.LinkList()
	if err != nil || len(links) != 2 {
		t.Errorf("its devices are %v, %v", links, err)
	}
}

// TestLeave: with the last replica of a launch its devices are removed.
func TestLeave(t *testing.T) {
	m := machines(t, 1)[0]
	first, second := network(7, 0, m, m), network(7, 1, m, m)
	m.join(first)
	m.join(second)
	for _, test := range []struct {
		link, key string
		want      []string
	}{
		{first.Link(), "another", []string{"phos7", "phos7.2", "phos7.3", "phos7v"}},
		{first.Link(), key, []string{"phos7", "phos7.3", "phos7v"}},
		{second.Link(), key, nil},
		{"eth0", key, nil},
	} {
		m.do(func() error {
			if err := m.node.Leave(test.link, test.key); err != nil {
				return err
			}
			if left := m.devices(); !slices.Equal(left, test.want) {
				m.Errorf("after %s of %s: %v, want %v", test.link, test.key, left, test.want)
			}
			return nil
		})
	}
}

// devices returns the names of devices of launches. The caller is in the namespace.
func (m *machine) devices() (names []string) {
	links, err := netlink.LinkList()
	if err != nil {
		m.Error(err)
	}
	for _, each := range links {
		if strings.HasPrefix(each.Attrs().Name, namePrefix) {
			names = append(names, each.Attrs().Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestSweep: what is left of a network without replicas is removed, what is half made is completed.
func TestSweep(t *testing.T) {
	m := machines(t, 1)[0]
	half := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "phos7"}}
	m.do(func() error { return netlink.LinkAdd(half) })
	first := network(7, 0, m)
	space := m.join(first)
	m.connect(first, true)
	listen(t, m.space, "10.213.7.1:5000")
	if got, err := ask(space, "10.213.7.1:5000", long); err != nil || got != "10.213.7.2" {
		t.Errorf("after a half-made bridge: %q, %v", got, err)
	}
	m.do(func() error { return m.node.Update(network(8, 0, m)) })
	m.do(func() error {
		err := m.node.Sweep()
		if left := m.devices(); !slices.Equal(left, []string{"phos7", "phos7.2", "phos7v"}) {
			t.Errorf("what is left: %v", left)
		}
		return err
	})
}

// send sends a datagram from a namespace.
func send(t *testing.T, space *os.File, to string, data []byte) {
	t.Helper()
	err := inNamespace(space, func() error {
		connection, err := net.Dial("udp4", to)
		if err != nil {
			return err
		}
		defer connection.Close()
		_, err = connection.Write(data)
		return err
	})
	if err != nil && !errors.Is(err, unix.EPERM) { // dropped on its way out
		t.Fatal(err)
	}
}

// TestForged: neither a replica nor a process of a node can send into the network of a launch, as
// another node does.
func TestForged(t *testing.T) {
	all := machines(t, 2)
	stranger, victim := network(7, 0, all[0], all[1]), network(8, 0, all[0])
	from, there := all[0].join(stranger), all[0].join(victim)
	other := all[1].join(network(7, 1, all[0], all[1]))
	for _, each := range []*Network{stranger, victim} {
		all[0].connect(each, true)
	}
	all[1].connect(network(7, 1, all[0], all[1]), true)
	heard := make(chan []byte, 10)
	err := inNamespace(there, func() error {
		socket, err := net.ListenPacket("udp4", ":5000")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = socket.Close() })
		go func() {
			for {
				data := make([]byte, 100)
				n, _, err := socket.ReadFrom(data)
				if err != nil {
					return
				}
				heard <- data[:n]
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	frame := forged(victim)
	for name, way := range map[string]struct {
		from *os.File
		to   string
	}{
		"by its own gateway":   {from, "10.213.7.1"},
		"by its node":          {from, all[0].address},
		"from another node":    {other, all[0].address},
		"on the node":          {all[0].space, all[0].address},
		"on the node, by lo":   {all[0].space, "127.0.0.1"},
		"on the node's bridge": {all[0].space, "10.213.8.1"},
	} {
		if way.to == "127.0.0.1" {
			all[0].do(func() error {
				loopback, err := netlink.LinkByName("lo")
				return errors.Join(err, netlink.LinkSetUp(loopback))
			})
		}
		send(t, way.from, fmt.Sprintf("%s:%d", way.to, Port), frame)
		select {
		case got := <-heard:
			t.Errorf("%s: the replica has got %q", name, got)
		case <-time.After(short):
		}
	}
	send(t, there, "10.213.8.2:5000", []byte("its own"))
	if got := <-heard; string(got) != "its own" {
		t.Errorf("the replica has got %q of its own", got)
	}
}

// forged returns a packet of VXLAN with a datagram for the first replica of a launch.
func forged(of *Network) []byte {
	payload := []byte("forged")
	vni := of.vni()
	packet := []byte{8, 0, 0, 0, byte(vni >> 16), byte(vni >> 8), byte(vni), 0}
	packet = append(packet, of.hardware(FirstHost)...)
	packet = append(packet, of.hardware(FirstHost+1)...)
	packet = append(packet, 8, 0)
	udp := append([]byte{0x13, 0x89, 0x13, 0x88, 0, byte(8 + len(payload)), 0, 0}, payload...)
	to, from := of.Address(FirstHost).As4(), of.Address(FirstHost+1).As4()
	header := []byte{0x45, 0, 0, byte(20 + len(udp)), 0, 1, 0, 0, 64, 17, 0, 0}
	header = append(append(header, from[:]...), to[:]...)
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(header[i])<<8 | uint32(header[i+1])
	}
	sum = ^(sum>>16 + sum&0xffff)
	header[10], header[11] = byte(sum>>8), byte(sum)
	return append(append(packet, header...), udp...)
}

// TestRead: orders that make no sense are refused.
func TestRead(t *testing.T) {
	good := func() *api.Network {
		return &api.Network{Number: 7, Prefix: "10.213.7.0/24", Range: "10.213.0.0/16", Own: 3, Hosts: 4, Peers: []*api.NetworkPeer{
			{Host: 2, NodeAddress: "192.0.2.1"}, {Host: 3, NodeAddress: "nonsense"},
		}}
	}
	n, err := Read(&api.Order{Network: good()})
	if err != nil || n.Link() != "phos7.3" || n.Address(n.Own).String() != "10.213.7.3" || len(n.Nodes) != 1 {
		t.Errorf("got %+v, %v", n, err)
	}
	if n, err := Read(&api.Order{}); n != nil || err != nil {
		t.Errorf("without a network: %v, %v", n, err)
	}
	for name, change := range map[string]func(*api.Network){
		"no number":    func(n *api.Network) { n.Number = 0 },
		"no prefix":    func(n *api.Network) { n.Prefix = "" },
		"wrong prefix": func(n *api.Network) { n.Prefix = "10.213.7.0/20" },
		"IPv6":         func(n *api.Network) { n.Prefix = "fd00::/24" },
		"outside":      func(n *api.Network) { n.Range = "10.99.0.0/16" },
		"the gateway":  func(n *api.Network) { n.Own = 1 },
		"too many":     func(n *api.Network) { n.Hosts = 255 },
		"not there":    func(n *api.Network) { n.Own = 5 },
	} {
		wrong := good()
		change(wrong)
		if _, err := Read(&api.Order{Network: wrong}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
