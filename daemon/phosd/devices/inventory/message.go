package inventory

import "github.com/phos-gpu/phos/daemon/api"

// Message returns the GPU for the local API, without processes and events, which package devices
// adds.
func (g *GPU) Message() *api.Hardware {
	m := &api.Hardware{
		BusId: g.BusID, TemperatureCelsius: g.TemperatureCelsius, PowerMilliwatts: g.PowerMilliwatts, PowerLimitMilliwatts: g.PowerLimitMilliwatts,
		ComputeMode: string(g.ComputeMode), Mig: g.MIG, Ecc: g.ECC, UncorrectedErrors: g.UncorrectedErrors,
		Links: uint32(len(g.NVLinks)), Lost: g.Lost,
	}
	if memory := g.Memory; memory != nil {
		m.MemoryBytes, m.UsedBytes, m.FreeBytes = &memory.TotalBytes, &memory.UsedBytes, &memory.FreeBytes
	}
	if use := g.Utilisation; use != nil {
		m.BusyPercent, m.MemoryBusyPercent = &use.GPUPercent, &use.MemoryPercent
	}
	for _, link := range g.NVLinks {
		if link.Active {
			m.ActiveLinks++
		}
	}
	return m
}
