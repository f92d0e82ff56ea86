package hosts

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/phos-gpu/phos/tests/hosts/ethernet"
)

// device is the name of a host's network device.
const device = "eth0"

// Direction says which frames of a host are concerned.
type Direction string

// The directions, as the host sees them.
const (
	Both Direction = "in and out"
	In   Direction = "in"
	Out  Direction = "out"
)

// CutOff drops all frames between the host and peers, or all other hosts if none is named, in that
// direction. Frames on their way are lost, and connections are not told.
func (h *Host) CutOff(direction Direction, peers ...*Host) {
	h.change(direction, peers, func(c *ethernet.Conditions) { c.Cut = true })
}

// Heal ends what CutOff, Slow and Shape began, between the host and peers, or all other hosts if
// none is named, in both directions.
func (h *Host) Heal(peers ...*Host) {
	h.change(Both, peers, func(c *ethernet.Conditions) { *c = ethernet.Conditions{} })
}

// Slow delays all frames between the host and peers, or all other hosts if none is named, in both
// directions: a round trip takes twice the delay more.
func (h *Host) Slow(delay time.Duration, peers ...*Host) {
	h.change(Both, peers, func(c *ethernet.Conditions) { c.Delay = delay })
}

// Shape sets all conditions of the lines between the host and peers, or all other hosts if none is
// named, in that direction.
func (h *Host) Shape(direction Direction, conditions ethernet.Conditions, peers ...*Host) {
	h.change(direction, peers, func(c *ethernet.Conditions) { *c = conditions })
}

// change changes the conditions of lines between the host and peers.
func (h *Host) change(direction Direction, peers []*Host, change func(*ethernet.Conditions)) {
	if len(peers) == 0 {
		peers = h.fleet.hosts
	}
	for _, peer := range peers {
		if peer == h {
			continue
		}
		if direction != In {
			h.fleet.network.Change(h.Name, peer.Name, change)
		}
		if direction != Out {
			h.fleet.network.Change(peer.Name, h.Name, change)
		}
	}
}

// Dial connects from the host to an address of the network, which is not a name.
func (h *Host) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = h.Do(func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens on the host, at an address of the network.
func (h *Host) Listen(network, address string) (listener net.Listener, err error) {
	err = h.Do(func() (err error) {
		listener, err = net.Listen(network, address)
		return err
	})
	return listener, err
}

// configureNetwork gives the host's devices their addresses. The addresses of other hosts are known
// in advance: a neighbour that cannot answer, because one direction is cut, is not forgotten.
func (h *Host) configureNetwork() error {
	var batch strings.Builder
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil {
		// An address of version 6 would come a second later by itself, and a browser calls off its
		// requests when addresses change.
		fmt.Fprintf(&batch, "link set %s addrgenmode none\n", device)
	}
	fmt.Fprintf(&batch, "link set lo up\nlink set %s address %s up\naddress add %s/15 brd + dev %[1]s\n",
		device, hardwareAddress(h.number), h.Address)
	for number := range Most {
		if number != h.number {
			fmt.Fprintf(&batch, "neighbour replace %s lladdr %s nud permanent dev %s\n",
				address(number), hardwareAddress(number), device)
		}
	}
	command := h.Command(context.Background(), "ip", "-batch", "-")
	command.Stdin = strings.NewReader(batch.String())
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("configure the network: %w: %s", err, output)
	}
	return nil
}

// hardwareAddress returns that of a host, by its number from 0.
func hardwareAddress(number int) string { return fmt.Sprintf("02:00:c6:12:00:%02x", number+1) }
