// Package hosts makes several hosts of one machine, for tests of what phos does between hosts. A
// host is a tree of processes in namespaces of its own (mount, pid, network, uts, ipc, cgroup) with
//
//   - an address of 198.18.0.0/15, a name, and all names in /etc/hosts;
//   - disks of its own that a test can fill, if it asks for them (Options.SmallDisks);
//   - private /run, /tmp and /dev/shm that a reboot empties, and /etc, /var/lib and /var/log that
//     it keeps, all in memory; /mnt is one directory that all hosts of a test share, as by NFS;
//   - cgroups of its own at the top of what it sees: of version 2, and of the controllers cpu,
//     memory and pids where those have version 1;
//   - a boot id, and pids that differ from those of other hosts, so that an image of one can be
//     restored on another.
//
// Everything else is the machine's: users' files, programs, libraries, devices, and the CPU.
//
// Hosts reach each other by the switch of package ethernet, and nothing else: no frame enters the
// machine's own network. A test kills, boots, freezes, cuts off and slows hosts while their
// programs run. The programs are children of the test in the host's namespaces, so exec.Cmd works
// as usual.
//
// What it is not: a virtual machine. Hosts share one kernel. A frozen host still answers pings and
// accepts connections, because its kernel does; CutOff it as well to make it silent. A killed host
// loses no file that it has not synced. Device nodes are shared, so are sysctls without a
// namespace.
//
// # Clocks
//
// A host's monotonic and boot time clocks can be ahead of the machine's for all its programs (time
// namespaces; Clocks.Monotonic and Clocks.Boot). No namespace has a wall clock. Clocks.Wall holds
// for programs that package walltime has built: it is in effect at once, as if an operator had set
// the clock. Other programs do not notice, and timestamps of files are the machine's.
//
// # Ends
//
// Everything ends with the test, and with its process, however that ends: the first process of a
// host gets SIGKILL from the kernel, and the network is in the process. Directories and cgroups
// that a killed process leaves have its pid in their names; the next one removes them.
//
// Lock order: Host.starting, then Host.mu.
//
// Read hosts.go first.
package hosts
