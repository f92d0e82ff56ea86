// Package onboot remembers which programs are restored after a restart of the machine: those whose
// policies say so, and that ran or were drained when the machine went down.
//
// There is one durable record for each program. It is written after a checkpoint of the program's
// policy, and removed when the program ends. A record of an earlier boot is a program to restore. A
// record of this boot without its program is removed: the program has ended while no phosd ran.
//
//   - A program that ends while the machine is being stopped, or while phosd is being stopped,
//     keeps its record, because the shutdown ends it.
//   - Attempts are counted before they are made, so that a restore that crashes phosd or the
//     machine counts, too. The next checkpoint of the restored program resets the count.
//
// Programs has one lock. Read Programs.
package onboot
