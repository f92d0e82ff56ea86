package tcpowner

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// littleEndian reports whether the lines below are such as this machine's kernel writes.
func littleEndian() bool {
	a, err := parseAddress("0100007F:0000")
	return err == nil && a.Addr().IsLoopback()
}

const (
	header   = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	ownLine  = "   1: 0100007F:1F90 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000     0        0 700 1 0 20 4\n"
	peerLine = "   2: 0100007F:A1B2 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 61241        0 701 1 0 20 4\n"
)

var own = pair{netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("127.0.0.1:41394")}

// TestPeer reads tables that a machine cannot be made to show.
func TestPeer(t *testing.T) {
	if !littleEndian() {
		t.Skip("the tables are those of a little-endian machine")
	}
	other := func(old, replacement string) string { return strings.Replace(peerLine, old, replacement, 1) }
	timeWait := strings.NewReplacer(" 01 ", " 06 ", " 701 ", " 0 ")
	mapped := strings.ReplaceAll(peerLine, "0100007F", "0000000000000000FFFF00000100007F")
	for name, test := range map[string]struct {
		text string
		uid  uint32
		err  error
	}{
		"both ends":               {header + ownLine + peerLine, 61241, nil},
		"mapped into version 6":   {header + ownLine + mapped, 61241, nil},
		"the same line twice":     {header + peerLine + ownLine + peerLine + ownLine, 61241, nil},
		"no peer":                 {header + ownLine, 0, ErrUnknown},
		"not this side":           {header + peerLine, 0, ErrUnknown},
		"this side's inode":       {header + strings.Replace(ownLine, "700", "702", 1) + peerLine, 0, ErrUnknown},
		"two peers":               {header + ownLine + peerLine + other("701", "703"), 0, ErrUnknown},
		"two peers of two users":  {header + ownLine + peerLine + other("61241", "61242"), 0, ErrUnknown},
		"time-wait":               {header + ownLine + timeWait.Replace(peerLine), 0, ErrUnknown},
		"no process holds it":     {header + ownLine + other(" 701 ", " 0 "), 0, ErrUnknown},
		"closing":                 {header + ownLine + other(" 01 ", " 04 "), 0, ErrUnknown},
		"another port":            {header + ownLine + other("A1B2", "A1B3"), 0, ErrUnknown},
		"another address":         {header + ownLine + other("0100007F", "0200007F"), 0, ErrUnknown},
		"the peer's inode is own": {header + ownLine + other("701", "700"), 0, ErrUnknown},
		"cut off":                 {header + ownLine + peerLine[:80], 0, ErrUnknown},
		"a bad user":              {header + ownLine + other("61241", "-6124"), 0, ErrUnknown},
		"a large user":            {header + ownLine + other("61241", "99999999999"), 0, ErrUnknown},
		"nothing":                 {"", 0, ErrUnknown},
	} {
		found, err := read(strings.NewReader(test.text), own)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if uid, err := found.peer(own, 700); uid != test.uid || !errors.Is(err, test.err) {
			t.Errorf("%s: user %d, %v, want %d, %v", name, uid, err, test.uid, test.err)
		}
	}
}

// FuzzTable checks that a user comes only from a line that is the other end.
func FuzzTable(f *testing.F) {
	f.Add(header + ownLine + peerLine)
	f.Add(ownLine + peerLine[:60])
	f.Add(strings.ReplaceAll(peerLine, "0100007F", "0000000000000000FFFF00000100007F") + ownLine)
	f.Add("1: :0 :0 01 0 0 0 1 0 1")
	f.Fuzz(func(t *testing.T, text string) {
		found, err := read(strings.NewReader(text), own)
		if err != nil {
			return
		}
		uid, err := found.peer(own, 700)
		if err != nil {
			return
		}
		for _, e := range found {
			if e.uid == uid && e.state == established && e.inode != 0 && e.inode != 700 && e.remote == own.local {
				return
			}
		}
		t.Fatalf("user %d of %v", uid, found)
	})
}
