package main

import (
	"net"
	"os"
	"strconv"

	"github.com/phos-gpu/phos/cluster/identity/authority"
)

// names returns the names and addresses of this machine, for browsers.
func (k *controller) names() (authority.Names, error) {
	host, err := os.Hostname()
	if err != nil {
		return authority.Names{}, err
	}
	names := authority.Names{DNS: []string{host, "localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return names, err
	}
	for _, each := range addresses {
		if ip, ok := each.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			names.IPs = append(names.IPs, ip.IP)
		}
	}
	for _, name := range k.config.Controller.Names {
		if ip := net.ParseIP(name); ip != nil {
			names.IPs = append(names.IPs, ip)
		} else {
			names.DNS = append(names.DNS, name)
		}
	}
	return names, nil
}

// name returns the name of this controller.
func (c *config) name() (string, error) {
	if c.Controller.Name != "" {
		return c.Controller.Name, nil
	}
	return os.Hostname()
}

// address returns where others reach the controller of a name, which listens at an address.
func (c *config) address(name string, at net.Addr) (string, error) {
	tcp, ok := at.(*net.TCPAddr)
	if peer := c.Store.Peers[name]; ok && peer != "" && tcp.IP.IsUnspecified() {
		return net.JoinHostPort(peer, strconv.Itoa(tcp.Port)), nil
	}
	return advertised(at)
}

// advertised returns the address by which others reach a listener. One that listens everywhere is
// reached by the first address of the machine that is not its loopback.
func advertised(at net.Addr) (string, error) {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return at.String(), nil
	}
	if !tcp.IP.IsUnspecified() {
		return tcp.String(), nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, each := range addresses {
		if ip, ok := each.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() && !ip.IP.IsLinkLocalUnicast() {
			return (&net.TCPAddr{IP: ip.IP, Port: tcp.Port}).String(), nil
		}
	}
	return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: tcp.Port}).String(), nil
}
