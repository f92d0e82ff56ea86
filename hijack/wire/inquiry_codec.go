package wire

import "encoding/binary"

// Answer is the information on GPUs that a program gets without a session.
type Answer struct {
	DriverVersion string
	CUDAVersion   uint32
	Devices       []AnsweredDevice
	Holdings      []Holding
}

// AnsweredDevice is a GPU and its state.
type AnsweredDevice struct {
	Device
	UsedBytes, FreeBytes uint64
	// Known says, by AnswerKnows*, which of the numbers below are set.
	Known                uint32
	BusyPercent          uint32
	MemoryBusyPercent    uint32
	TemperatureCelsius   uint32
	PowerMilliwatts      uint32
	PowerLimitMilliwatts uint32
}

// Holding is the memory of a program on a GPU.
type Holding struct {
	Device    uint32
	PID       uint32
	UsedBytes uint64
}

// Append appends the whole answer. Devices past DeviceMax are omitted.
func (a *Answer) Append(data []byte) []byte {
	order := binary.LittleEndian
	devices := a.Devices[:min(len(a.Devices), DeviceMax)]
	head := make([]byte, AnswerHeadBytes)
	order.PutUint32(head[AnswerMagic:], InquiryMagic)
	order.PutUint32(head[AnswerVersion:], Version)
	order.PutUint32(head[AnswerDevices:], uint32(len(devices)))
	order.PutUint32(head[AnswerHoldings:], uint32(len(a.Holdings)))
	order.PutUint32(head[AnswerServes:], a.CUDAVersion)
	copy(head[AnswerDriver:][:AnswerText-1], a.DriverVersion)
	data = append(data, head...)
	for _, d := range devices {
		data = d.appendTo(data)
	}
	for _, p := range a.Holdings {
		entry := make([]byte, AnswerHoldingBytes)
		order.PutUint32(entry[AnswerHoldingDevice:], p.Device)
		order.PutUint32(entry[AnswerHolder:], p.PID)
		order.PutUint64(entry[AnswerHeld:], p.UsedBytes)
		data = append(data, entry...)
	}
	return data
}

// appendTo appends the device's entry, of AnswerDeviceBytes.
func (d *AnsweredDevice) appendTo(data []byte) []byte {
	order := binary.LittleEndian
	entry := make([]byte, AnswerDeviceBytes)
	d.encode(entry[:DeviceBytes])
	order.PutUint64(entry[AnswerUsed:], d.UsedBytes)
	order.PutUint64(entry[AnswerFree:], d.FreeBytes)
	for place, value := range map[int]uint32{
		AnswerKnown: d.Known, AnswerBusy: d.BusyPercent, AnswerMemoryBusy: d.MemoryBusyPercent,
		AnswerTemperature: d.TemperatureCelsius, AnswerPower: d.PowerMilliwatts, AnswerPowerLimit: d.PowerLimitMilliwatts,
	} {
		order.PutUint32(entry[place:], value)
	}
	return append(data, entry...)
}
