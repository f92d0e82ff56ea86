// Package nested tests the backend for real GPUs without such a GPU. Its driver is libphos.so,
// connected to a second phosd with a software GPU.
//
// Any other suite runs this way with PHOS_TEST_NESTED=1. Tests of properties that real GPUs lack
// are skipped by harness.RealGPU. On real GPUs the location of a fault is unknown, managed
// variables are refused, and registered pages are registered once, also if two parts share a page.
// An image from a software GPU cannot be restored, because no driver would place its variables at
// the same addresses. Windows of another size or place can be restored as far as the driver has the
// addresses (TestOldWindows). With libphos.so as the driver those are the addresses of the inner
// phosd; TestRestoreOldWindow in daemon/worker/session has older ones.
package nested
