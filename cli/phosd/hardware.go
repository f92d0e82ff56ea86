package main

import (
	"os"
	"path/filepath"
	"strings"
)

// What sysfs says of NVIDIA's GPUs: the vendor, and the class of display controllers, of which the
// last four digits vary.
const (
	nvidiaVendor = "0x10de"
	displayClass = "0x03"
)

// nvidiaHardware lists the NVIDIA GPUs that the kernel knows, with or without a driver: device
// nodes and PCI devices below a root directory.
func nvidiaHardware(root string) []string {
	var found []string
	nodes, _ := filepath.Glob(filepath.Join(root, "dev/nvidia[0-9]*"))
	for _, node := range nodes {
		found = append(found, strings.TrimPrefix(node, strings.TrimSuffix(root, "/")))
	}
	vendors, _ := filepath.Glob(filepath.Join(root, "sys/bus/pci/devices/*/vendor"))
	for _, vendor := range vendors {
		device := filepath.Dir(vendor)
		if firstLine(vendor) == nvidiaVendor && strings.HasPrefix(firstLine(filepath.Join(device, "class")), displayClass) {
			found = append(found, "PCI device "+filepath.Base(device))
		}
	}
	return found
}

// firstLine returns the content of a small file of sysfs; empty if it cannot be read.
func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
