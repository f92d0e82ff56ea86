package wire

import (
	"encoding/binary"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Header is the content of the header, which a worker writes before it answers the handshake.
type Header struct {
	Session       uint64
	ArenaBase     uint64
	ArenaBytes    uint64
	DriverVersion uint32
	Devices       []Device
}

// Device is one entry of the device table. libphos answers questions about a device from it.
type Device struct {
	Name        string
	UUID        [16]byte
	MemoryBytes uint64
	// Attributes by number; those from DeviceAttributes on are omitted.
	Attributes map[abi.DeviceAttribute]int32
	// Window and WindowBytes are the address range of the device's memory, as the program sees it.
	Window, WindowBytes uint64
}

// Offsets in an entry of the device table.
const (
	DeviceName       = 0
	DeviceNameBytes  = 256
	DeviceUUID       = 256
	DeviceMemory     = 272
	DeviceAttribute  = 280
	DeviceAttributes = 300
	DeviceWindow     = 1480
	DeviceWindowSize = 1488
)

// SetHeader writes the header. Devices past DeviceMax are omitted.
func (f *File) SetHeader(h Header) {
	devices := h.Devices[:min(len(h.Devices), DeviceMax)]
	for i, d := range devices {
		d.encode(f.Region(DeviceTable+i*DeviceBytes, DeviceBytes))
	}
	f.Word64(WordSession).Store(h.Session)
	f.Word64(WordArenaBase).Store(h.ArenaBase)
	f.Word64(WordArenaBytes).Store(h.ArenaBytes)
	f.Word32(WordDriverVersion).Store(h.DriverVersion)
	f.Word32(WordDeviceCount).Store(uint32(len(devices)))
	f.Word32(WordVersion).Store(Version)
	f.Word32(WordMagic).Store(Magic)
}

// Header reads the header back, as libphos does.
func (f *File) Header() Header {
	h := Header{
		Session:       f.Word64(WordSession).Load(),
		ArenaBase:     f.Word64(WordArenaBase).Load(),
		ArenaBytes:    f.Word64(WordArenaBytes).Load(),
		DriverVersion: f.Word32(WordDriverVersion).Load(),
	}
	for i := range min(int(f.Word32(WordDeviceCount).Load()), DeviceMax) {
		h.Devices = append(h.Devices, decodeDevice(f.Region(DeviceTable+i*DeviceBytes, DeviceBytes)))
	}
	return h
}

func (d *Device) encode(entry []byte) {
	clear(entry)
	copy(entry[DeviceName:DeviceNameBytes-1], d.Name)
	copy(entry[DeviceUUID:], d.UUID[:])
	binary.LittleEndian.PutUint64(entry[DeviceMemory:], d.MemoryBytes)
	binary.LittleEndian.PutUint64(entry[DeviceWindow:], d.Window)
	binary.LittleEndian.PutUint64(entry[DeviceWindowSize:], d.WindowBytes)
	for attribute, value := range d.Attributes {
		if attribute >= 0 && attribute < DeviceAttributes {
			binary.LittleEndian.PutUint32(entry[DeviceAttribute+4*int(attribute):], uint32(value))
		}
	}
}

func decodeDevice(entry []byte) Device {
	d := Device{
		Name:        text(entry[DeviceName:DeviceNameBytes]),
		MemoryBytes: binary.LittleEndian.Uint64(entry[DeviceMemory:]),
		Attributes:  map[abi.DeviceAttribute]int32{},
		Window:      binary.LittleEndian.Uint64(entry[DeviceWindow:]),
		WindowBytes: binary.LittleEndian.Uint64(entry[DeviceWindowSize:]),
	}
	copy(d.UUID[:], entry[DeviceUUID:])
	for i := range DeviceAttributes {
		if value := int32(binary.LittleEndian.Uint32(entry[DeviceAttribute+4*i:])); value != 0 {
			d.Attributes[abi.DeviceAttribute(i)] = value
		}
	}
	return d
}
