// etcd_write puts values into etcd as tests/bench/meta_load.c writes to metad: so many writers, each with one
// put under way at a time; one line of JSON at the end.
//
//	etcd_write ENDPOINTS WRITERS SECONDS BYTES
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func number(at int) int {
	value, err := strconv.Atoi(os.Args[at])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return value
}

func cpu() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}

// The endpoint that leads, alone: neither system pays for forwarding.
func leader(endpoints []string) (string, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second})
	if err != nil {
		return "", err
	}
	defer client.Close()
	for _, endpoint := range endpoints {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		status, err := client.Status(ctx, endpoint)
		cancel()
		if err == nil && status.Header.MemberId == status.Leader {
			return endpoint, nil
		}
	}
	return "", fmt.Errorf("nobody leads")
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: etcd_write ENDPOINTS WRITERS SECONDS BYTES")
		os.Exit(2)
	}
	endpoint, err := leader(strings.Split(os.Args[1], ","))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer client.Close()
	writers, seconds, bytes := number(2), number(3), number(4)
	value := strings.Repeat("v", bytes)
	var next, failed atomic.Uint64
	var lock sync.Mutex
	var latency []int64
	var group sync.WaitGroup
	before, began := cpu(), time.Now()
	end := began.Add(time.Duration(seconds) * time.Second)
	for i := 0; i < writers; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			var own []int64
			for time.Now().Before(end) {
				n := next.Add(1)
				start := time.Now()
				_, err := client.Put(context.Background(), fmt.Sprintf("%016x-%d", n*0x9e3779b97f4a7c15, n), value)
				if err != nil {
					failed.Add(1)
					continue
				}
				own = append(own, time.Since(start).Microseconds())
			}
			lock.Lock()
			latency = append(latency, own...)
			lock.Unlock()
		}()
	}
	group.Wait()
	took := time.Since(began).Seconds()
	sort.Slice(latency, func(a, b int) bool { return latency[a] < latency[b] })
	if len(latency) == 0 {
		fmt.Fprintln(os.Stderr, "nothing was written")
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"done": len(latency), "failed": failed.Load(), "per_s": float64(len(latency)) / took,
		"p50_us": latency[len(latency)/2], "p99_us": latency[len(latency)*99/100], "client_cpu_s": cpu() - before,
	})
}
