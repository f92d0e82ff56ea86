package session

// Numbers of the driver API and of the wire, as programs send them.
const (
	eventDisableTiming = 2
	eventInterprocess  = 4

	poolReuseFirst = 1
	poolThreshold  = 4
	poolUsed       = 7
	poolUsedHigh   = 8

	listRoots        = 1
	listEdges        = 2
	listDependencies = 3
)
