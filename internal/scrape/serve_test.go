package scrape

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestConnections checks that the connections of clients are limited, also those that stay idle,
// and that closed ones make room.
func TestConnections(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	end, err := Serve("unix:"+socket, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = end() }()
	scrape := func() (net.Conn, error) {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return nil, err
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: phosd\r\n\r\n"); err != nil {
			return conn, err
		}
		reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			_ = reply.Body.Close()
		}
		return conn, err
	}
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	for i := range maxConnections + 1 {
		conn, err := scrape()
		if conn != nil {
			open = append(open, conn)
		}
		if refused := err != nil; refused != (i == maxConnections) {
			t.Fatalf("connection %d: got %v, want refused = %v", i, err, i == maxConnections)
		}
	}
	_ = open[0].Close()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		conn, err := scrape()
		if conn != nil {
			open = append(open, conn)
		}
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a closed connection makes no room: %v", err)
		}
	}
}
