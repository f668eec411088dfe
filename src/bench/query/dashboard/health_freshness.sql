SELECT * FROM system.freshness
