package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/store/etcd/peers"
)

// peersVerb is the word for makePeers.
const peersVerb = "peers"

// errUsage is returned for arguments that peers cannot use.
var errUsage = errors.New("usage: phos-controller peers DIR NAME=ADDRESS... with the name and IP address of each controller")

// reportPeers prints the error, and returns the exit status.
func reportPeers(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "phos-controller:", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// makePeers makes the certificates of several controllers, and says what to do with them.
func makePeers(arguments []string, out io.Writer) error {
	if len(arguments) < 2 {
		return errUsage
	}
	dir, addresses := arguments[0], map[string]netip.Addr{}
	for _, each := range arguments[1:] {
		name, text, _ := strings.Cut(each, "=")
		address, err := netip.ParseAddr(text)
		if err != nil || name == "" {
			return fmt.Errorf("%.80q is not NAME=ADDRESS: %w", each, errUsage)
		}
		addresses[name] = address
	}
	made, err := peers.Make(dir, addresses, time.Now())
	if err != nil {
		return fmt.Errorf("certificates of controllers in %s: %w", dir, err)
	}
	explainPeers(out, dir, addresses, made.New)
	return nil
}

// explainPeers says where the certificates belong, and prints the configuration.
func explainPeers(out io.Writer, dir string, addresses map[string]netip.Addr, made []string) {
	for _, name := range made {
		fmt.Fprintf(out, "copy %s/%s to %s on %s, readable by root only\n", dir, name, defaultStore.Certificates, addresses[name])
	}
	fmt.Fprintf(out, "keep %s/ca.key where no controller is: it makes further controllers\n", dir)
	fmt.Fprintf(out, "put this into %s on all of them, and the name of each into controller.name:\n\n[store.peers]\n", DefaultConfig)
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		fmt.Fprintf(out, "%s = %q\n", name, addresses[name])
	}
}
