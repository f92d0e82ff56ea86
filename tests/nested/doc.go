// Package nested tests the backend for real GPUs without one: its driver is libphos.so, and behind
// that stands a second phosd with a software GPU.
//
// Any other suite runs so with PHOS_TEST_NESTED=1. What cannot hold there is passed over by
// lab.RealGPU, because it would not hold on real GPUs either: a fault's place is not told, managed
// variables are refused, and pages that the program registers are registered once, not for each of
// two parts in one. Nor does an image restore that was made on a software GPU alone: it has the
// addresses of variables that no driver would give them. Windows of another size, or elsewhere, are
// had again as far as the driver has the addresses (TestOldWindows); below our own libphos.so those
// are the inner phosd's, and TestRestoreOldWindow in daemon/worker/session has the ones of long
// ago.
package nested
