package keyfuncs

// AddressesOf returns how many addresses an option of LimitFailures remembers.
func AddressesOf(option APIKeyOption) int {
	var k apiKeys
	option(&k)
	k.failures.mu.Lock()
	defer k.failures.mu.Unlock()
	return len(k.failures.byAddress)
}
