"""Lists the devices of ours that are in use, and by whom. Pure."""

from controller.state import State


def devices_in_use(state: State) -> dict[str, str]:
    """Return ``pool/device/shareID`` of every device of ours in use, with the key of the claim that holds it.

    A holder that no known claim confirms appears by its uid, without shareID.
    """
    driver, snapshot = state.names.driver, state.devices.usage_snapshot()
    held = {(device, uid) for device, use in snapshot.items() if device.driver == driver for uid in use.holders}
    unconfirmed, devices = set(held), {}
    for record in state.claims.values():
        for result in record.claim.allocation.results if record.claim.allocation else ():
            holding = (result.device, record.claim.uid)
            if holding in held or (result.admin_access and result.device.driver == driver):
                devices[f"{result.device.pool}/{result.device.device}/{result.share_id}"] = record.claim.key
                unconfirmed.discard(holding)
    return devices | {f"{device.pool}/{device.device}/": uid for device, uid in unconfirmed}
