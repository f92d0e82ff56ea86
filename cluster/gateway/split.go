package gateway

import (
	"net"
	"syscall"

	"google.golang.org/grpc/credentials"
)

// maxPeek is how many bytes say whether a connection in clear is HTTP/2: "PRI * HTTP/2.0" begins
// each, and no method of HTTP/1.1 begins so.
const maxPeek = 3

// http2 is what a connection of HTTP/2 begins with.
const http2 = "PRI"

// speaksHTTP1 reports whether a connection is one of HTTP/1.1. TLS has agreed on that; in clear,
// the first bytes are looked at, which are sent at once.
func speaksHTTP1(conn net.Conn, info credentials.AuthInfo) bool {
	if tls, ok := info.(credentials.TLSInfo); ok {
		return tls.State.NegotiatedProtocol == "http/1.1"
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	begin := peek(raw)
	return begin != "" && begin != http2
}

// peek returns the first bytes of a connection, which stay to be read; empty if it ends before.
func peek(raw syscall.RawConn) (begin string) {
	var buffer [maxPeek]byte
	err := raw.Read(func(fd uintptr) (done bool) {
		n, _, err := syscall.Recvfrom(int(fd), buffer[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err == syscall.EAGAIN || err == syscall.EINTR {
			return false
		}
		begin = string(buffer[:max(n, 0)])
		return true
	})
	if err != nil {
		return ""
	}
	return begin
}
