// Package reclaim gives freed device memory and pinned memory back to the driver.
//
// Some drivers wait for all work before they take memory back, and work may wait for a word that
// the program's next call writes. A handler must therefore never free such memory while a stream
// has work: the memory is kept (gpu.ReclaimableMemory), or its release is deferred, until all GPUs
// are idle.
//
// Methods need core.Core.Mu, unless their comment says otherwise. Tested by the tests of package
// session.
package reclaim
