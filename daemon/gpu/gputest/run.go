package gputest

import (
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// Run tests a backend. open is called once per test; the suite closes the backend. The first device
// must have compute capability 7.0 or higher and at least 64 MiB of free memory.
func Run(t *testing.T, open func(t testing.TB) gpu.Backend) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, b *bench)
	}{
		{"devices", testDevices},
		{"memory/map", testMap},
		{"memory/account", testAccount},
		{"memory/reclaim", testReclaim},
		{"memory/reclaim while busy", testReclaimWhileBusy},
		{"memory/out of memory", testOutOfMemory},
		{"memory/alias", testAlias},
		{"memory/alias dirty", testAliasDirty},
		{"memory/host", testHostMemory},
		{"memory/dirty", testDirty},
		{"memory/absent", testAbsent},
		{"memory/never written", testNeverWritten},
		{"memory/digests", testDigests},
		{"memory/shadows", testShadows},
		{"memory/shadows left behind", testShadowsLeft},
		{"memory/ended", testEnded},
		{"memory/pinned", testPinned},
		{"memory/accesses", testAccesses},
		{"memory/shared", testShared},
		{"peer/copies", testPeerCopies},
		{"peer/access", testPeerAccess},
		{"peer/host", testPeerHost},
		{"copy/lines", testCopyLines},
		{"copy/boxes", testCopyBoxes},
		{"copy/host error", testCopyHostError},
		{"copy/refused", testCopyRefused},
		{"copy/host only", testCopyHostOnly},
		{"fill", testFill},
		{"stream/order", testOrder},
		{"stream/concurrency", testConcurrency},
		{"stream/query", testQuery},
		{"stream/words", testWords},
		{"stream/completion", testCompletion},
		{"stream/completion pending", testCompletionPending},
		{"stream/close", testStreamClose},
		{"event/await", testAwait},
		{"event/rerecord", testRerecord},
		{"event/time", testElapsed},
		{"event/random programs", testRandomPrograms},
		{"graph/dependencies", testGraphDependencies},
		{"graph/update", testGraphUpdate},
		{"graph/apart", testGraphApart},
		{"graph/queued", testGraphQueued},
		{"graph/refused", testGraphRefused},
		{"graph/events", testGraphEvents},
		{"module/launch", testLaunch},
		{"module/globals", testGlobals},
		{"module/initial variables", testInitialVariables},
		{"module/narrow addresses", testNarrowAddresses},
		{"module/linked texts", testLinkedTexts},
		{"module/printf", testPrintf},
		{"module/refused", testRefusedModules},
		{"module/attributes", testFunctionAttributes},
		{"module/occupancy", testOccupancy},
		{"module/bad launches", testBadLaunches},
		{"module/graph", testKernelGraph},
		{"fault/address", testFault},
		{"fault/calls", testCallsAfterFault},
		{"fault/alias", testAliasFault},
		{"fault/peer", testPeerFault},
		{"fault/endless kernel", testEndlessKernel},
		{"close", testClose},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newBench(t, open(t))) })
	}
}
