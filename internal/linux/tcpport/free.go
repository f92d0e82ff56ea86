package tcpport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// timeWait is TCP_TIME_WAIT of include/net/tcp_states.h.
const timeWait = 6

// Free removes the closed connections that keep listeners from their addresses, in the network
// namespace of the calling thread. It needs CAP_NET_ADMIN there, and a kernel that can destroy
// sockets (CONFIG_INET_DIAG_DESTROY).
func Free(listeners []netip.AddrPort) (failed error) {
	if len(listeners) == 0 {
		return nil
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		left, err := netlink.SocketDiagTCP(family)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return fmt.Errorf("list TCP connections: %w", err)
		}
		for _, each := range left {
			inTheWay := func(listener netip.AddrPort) bool { return keepsFrom(&each.ID, listener) }
			if each.State != timeWait || !slices.ContainsFunc(listeners, inTheWay) {
				continue
			}
			if err := destroy(family, &each.ID); err != nil && !errors.Is(err, unix.ENOENT) {
				failed = fmt.Errorf("free TCP port %d: %w", each.ID.SourcePort, err)
			}
		}
	}
	return failed
}

// keepsFrom reports whether a connection was one of a listener's address, or of one that it
// includes.
func keepsFrom(id *netlink.SocketID, listener netip.AddrPort) bool {
	local, ok := netip.AddrFromSlice(id.Source)
	return ok && id.SourcePort == listener.Port() &&
		(listener.Addr().IsUnspecified() || listener.Addr().Unmap() == local.Unmap())
}

// destroy removes a socket by its addresses and its cookie.
func destroy(family uint8, id *netlink.SocketID) error {
	request := nl.NewNetlinkRequest(nl.SOCK_DESTROY, unix.NLM_F_ACK)
	request.AddData(&socketRequest{family, id})
	_, err := request.Execute(unix.NETLINK_INET_DIAG, 0)
	return err
}

// socketRequest is struct inet_diag_req_v2 of include/uapi/linux/inet_diag.h.
type socketRequest struct {
	family uint8
	id     *netlink.SocketID
}

const socketRequestBytes = 56

// Len implements nl.NetlinkRequestData.
func (r *socketRequest) Len() int { return socketRequestBytes }

// Serialize implements nl.NetlinkRequestData.
func (r *socketRequest) Serialize() []byte {
	text := []byte{r.family, unix.IPPROTO_TCP, 0, 0}
	text = binary.NativeEndian.AppendUint32(text, 1<<timeWait) // states
	text = binary.BigEndian.AppendUint16(text, r.id.SourcePort)
	text = binary.BigEndian.AppendUint16(text, r.id.DestinationPort)
	text = append(text, r.address(r.id.Source)...)
	text = append(text, r.address(r.id.Destination)...)
	text = binary.NativeEndian.AppendUint32(text, r.id.Interface)
	text = binary.NativeEndian.AppendUint32(text, r.id.Cookie[0])
	return binary.NativeEndian.AppendUint32(text, r.id.Cookie[1])
}

// address returns an address in 16 bytes.
func (r *socketRequest) address(ip net.IP) []byte {
	if r.family == unix.AF_INET6 {
		return ip.To16()
	}
	return append(slices.Clone(ip.To4()), make([]byte, net.IPv6len-net.IPv4len)...)
}
